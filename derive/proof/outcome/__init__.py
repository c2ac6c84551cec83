"""What a proof says: its verdict, and the region of points that differ."""
