"""Torch operators on elements, reductions and products; imported, they register themselves."""
