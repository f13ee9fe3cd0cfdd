"""First stage: one tile of an operator as TIR, scheduled by TVM and read back as perfect loop nests."""
