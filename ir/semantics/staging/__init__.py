"""Operands in staging memories: what of them lies there, and where."""
