"""First stage: the TIR of an operator in a cell, to which schedule templates apply the plan."""
