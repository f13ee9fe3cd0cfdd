"""What a plan's decisions mean for the elements of tensors: boxes, cells, aliases, portions."""
