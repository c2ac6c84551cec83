"""Plain text for people: numbers in words, rows below each other, lines within a terminal.

It imports nothing of einalg, so that every room may use it.
"""
