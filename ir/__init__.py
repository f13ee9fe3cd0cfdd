"""The nouns: machines, graphs, plans, instructions, programs, traces, and the checkers that judge them."""
