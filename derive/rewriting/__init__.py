"""Moves as values, where they apply, and rules of the user's own."""
