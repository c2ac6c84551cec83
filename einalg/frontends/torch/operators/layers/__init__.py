"""Torch operators that are layers of networks; imported, they register themselves."""
