"""``girih pareto``."""
