"""Second stage: every ONNX node becomes steps of the net, through TVM Relax and TIR."""
