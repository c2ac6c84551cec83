"""torch layers of networks."""
