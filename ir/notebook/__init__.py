"""How nouns look in notebooks."""
