"""Programs of few operators, by their values."""
