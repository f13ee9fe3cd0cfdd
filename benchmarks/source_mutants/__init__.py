"""Small changes of the sources, and whether the nearest tests notice them."""
