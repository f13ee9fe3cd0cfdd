"""Details on demand: all that is known about one operator, tensor, segment, memory or model of a compilation."""
