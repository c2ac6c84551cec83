"""Index arithmetic: forms, ranges and conditions of integers."""
