"""C for the CPU."""
