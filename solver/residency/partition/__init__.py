"""Tensors and weights cut into boxes that stay, move and die separately."""
