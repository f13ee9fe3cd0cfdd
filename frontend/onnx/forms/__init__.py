"""Operators and forms of them that TVM lacks or imports as something else, by others that it imports right."""
