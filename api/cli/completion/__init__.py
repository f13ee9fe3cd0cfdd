"""What shells need to complete words of girih."""
