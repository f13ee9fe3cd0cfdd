"""The network itself, run for comparison through TVM's LLVM build."""
