"""What makes a model, a node or an operand no part of a network: refused, with what to change."""
