"""The order of the queues: which instruction each engine issues next, across operators, tiles and sub-batches."""
