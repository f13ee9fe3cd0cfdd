"""What a machine is: memories and engines, and what follows from them; the machines that ship (TOML files)."""
