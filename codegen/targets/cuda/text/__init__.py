"""The loop IR as CUDA text."""
