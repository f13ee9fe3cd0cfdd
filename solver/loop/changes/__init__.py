"""Changes of the best plan: other splits, fewer instances, other addresses, tiles that are chosen for each other."""
