"""A program prepared for running: its tasks, what they touch and what they wait for."""
