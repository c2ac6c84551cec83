"""Convolutions with few filters."""
