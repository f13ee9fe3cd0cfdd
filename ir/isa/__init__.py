"""The instruction set: its table, and what derives from it."""
