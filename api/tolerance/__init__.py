"""What comparisons of outputs allow: the rounding errors that a right program may have."""
