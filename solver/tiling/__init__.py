"""Model 3, tiling: the tile of each operator on one core."""
