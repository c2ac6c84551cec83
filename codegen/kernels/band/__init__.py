"""Products with a band of a matrix."""
