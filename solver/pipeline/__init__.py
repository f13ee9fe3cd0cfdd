"""Model 4, pipeline: the multi-buffering degree of each tile loop."""
