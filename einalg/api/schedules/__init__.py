"""Schedules of kernels: found by search (`tuning`), and chosen by hand (`by_hand`)."""
