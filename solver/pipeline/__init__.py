"""Model 4, pipeline: the multi-buffering degrees of each tile loop, by exhaustive search with an exact evaluation."""
