"""Engines of a core that share every instruction, and what they wait for each other."""
