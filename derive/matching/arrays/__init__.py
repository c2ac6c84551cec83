"""Matching of operators that move or map elements."""
