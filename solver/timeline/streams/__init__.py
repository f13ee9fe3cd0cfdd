"""What the matrix engine reads tile by tile, in the predicted timeline: versions of buffers that take turns."""
