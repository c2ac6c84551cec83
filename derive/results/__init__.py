"""What a derivation returns."""
