"""The five verbs on one screen, the compiled network as an object and as a file, and the command line."""
