"""ONNX operators on elements, reductions and products."""
