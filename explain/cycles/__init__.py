"""Where the cycles of a run go: what each engine and link did, and what it waited for."""
