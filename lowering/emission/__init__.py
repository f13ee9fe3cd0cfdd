"""Second stage: perfect loop nests become instructions."""
