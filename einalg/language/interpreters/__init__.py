"""Evaluation of expressions without compiling them."""
