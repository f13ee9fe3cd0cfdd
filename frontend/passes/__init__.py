"""Third stage: rewrites of the net, each a function from a net to a net or an operation on one."""
