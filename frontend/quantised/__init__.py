"""Quantised networks: products of 8-bit integers with 32-bit sums, and nothing else in floating point than was."""
