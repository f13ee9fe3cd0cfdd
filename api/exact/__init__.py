"""What a program has to compute, to the last bit: its graph in numpy."""
