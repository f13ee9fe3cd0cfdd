"""When instructions run: the clock, shared bandwidth, deadlocks and counters."""
