"""Details as text, for a given number of columns."""
