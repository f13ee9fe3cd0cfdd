"""Rematerialisation: which results are computed again where they are read, after a plan is known."""
