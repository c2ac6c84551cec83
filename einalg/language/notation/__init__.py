"""The two doors of the notation: Python builders and text."""
