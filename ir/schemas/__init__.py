"""JSON Schemas of machine files, plans, reports, details and comparisons."""
