"""Rules between statements."""
