"""JSON Schemas of machine files, plans and reports."""
