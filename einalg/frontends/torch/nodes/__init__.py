"""Nodes of a torch graph: their arguments and tensors, and the table of operators."""
