"""Third stage: perfect loop nests become instructions."""
