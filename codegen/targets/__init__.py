"""Languages that kernels are printed in."""
