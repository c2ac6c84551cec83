"""The search: states, expansion, repairs and variations (design §8)."""
