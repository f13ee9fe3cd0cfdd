"""Strategies to be compared with: no schedule of the whole, and published heuristics."""
