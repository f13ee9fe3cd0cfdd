"""The border to OR-Tools CP-SAT, and the log of what was solved."""
