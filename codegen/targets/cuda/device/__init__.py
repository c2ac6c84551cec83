"""Running on a CUDA device."""
