"""Torch operators on shapes and positions; imported, they register themselves."""
