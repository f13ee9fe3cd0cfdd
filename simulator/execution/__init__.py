"""What instructions compute: arithmetic, memories and ports."""
