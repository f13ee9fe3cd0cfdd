"""Single changes of an ONNX model, most of which make it wrong. Each returns what it did, or ``None`` if it cannot."""
