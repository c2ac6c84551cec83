"""What running needs: timing, result buffers, direct calls."""
