"""What one register tile of a contraction sums, fetches ahead and stores (design §10)."""
