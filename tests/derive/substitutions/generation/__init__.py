"""The generator of substitutions."""
