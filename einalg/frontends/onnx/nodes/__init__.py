"""Nodes of an ONNX graph: their values, attributes and outputs, and the table of operators."""
