"""Model 1, segmentation: which consecutive operators form a segment, and how it is split."""
