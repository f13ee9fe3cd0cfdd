"""What a plan is to have least of, if not cycles: bytes of a memory; and what the bytes between buy."""
