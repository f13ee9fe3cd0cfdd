"""Checkers of graphs, machines and plans; they share no code with what builds these."""
