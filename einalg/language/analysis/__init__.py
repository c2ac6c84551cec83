"""Questions about expressions: identity, validity, types, what is constant."""
