"""Groups of segments whose instances take turns: which there are, and what each costs as a column of the master."""
