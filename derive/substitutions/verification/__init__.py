"""Rules as pairs of programs, and verdicts on them."""
