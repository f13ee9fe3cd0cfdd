"""Operators that users bring, in the frontend: their functions are called, and what they return is judged."""
