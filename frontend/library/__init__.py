"""Kernels with control flow that ship with the compiler, in TVMScript, for a scalar engine."""
