"""Plain text for people: numbers in words, rows below each other, lines within a terminal."""
