"""Model 2, residency: what is in the shared memory when, and when it is fetched."""
