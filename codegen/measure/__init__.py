"""Rates of the machine, and baselines."""
