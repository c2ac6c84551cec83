"""Statements as CUDA kernels."""
