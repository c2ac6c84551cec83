"""Operators on elements, reductions and products."""
