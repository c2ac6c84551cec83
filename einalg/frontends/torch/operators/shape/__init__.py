"""torch operators that move elements."""
