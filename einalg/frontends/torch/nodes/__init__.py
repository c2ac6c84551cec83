"""Nodes of a torch graph: their arguments and tensors, and the table of operators.

Imported by `einalg.frontends.torch.operators`, the importer and `capture`. A conversion that
several operators need belongs to `arguments`.
"""
