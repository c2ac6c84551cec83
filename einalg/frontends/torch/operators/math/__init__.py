"""torch operators on elements, reductions and products."""
