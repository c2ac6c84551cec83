"""ONNX operators that move elements."""
