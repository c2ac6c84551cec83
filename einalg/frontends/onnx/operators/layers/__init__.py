"""ONNX layers of networks."""
