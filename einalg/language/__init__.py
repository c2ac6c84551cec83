"""The language: expressions, their notation, meaning and operators (design §2-§4)."""
