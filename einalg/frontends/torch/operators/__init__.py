"""Torch operators as expressions of the language: a module for each family.

Each handler registers itself in the table of `einalg.frontends.torch.nodes.registry` when its
module is imported, which `einalg.frontends.torch` does. A new operator is one more handler.
"""
