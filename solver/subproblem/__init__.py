"""From segments to an evaluated plan: what the models below segmentation decide together."""
