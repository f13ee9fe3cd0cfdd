"""Cycles against bytes of a memory: the curve as text, JSON, CSV and a page with a picture."""
