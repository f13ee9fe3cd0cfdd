"""Writes a compilation and its run in the formats of other tools."""
