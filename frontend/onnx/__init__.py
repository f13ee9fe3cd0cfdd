"""First stage: the ONNX file, read, checked and rewritten until everything in it is static and supported."""
