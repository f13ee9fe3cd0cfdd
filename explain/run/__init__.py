"""A run of a program as columns: instructions, the plan's slots that they belong to, and the lives of buffers."""
