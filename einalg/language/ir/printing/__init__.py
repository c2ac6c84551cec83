"""Expressions as text, LaTeX and trees."""
