"""Hand-shaped loop nests: contractions, stencils, bands."""
