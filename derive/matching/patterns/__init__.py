"""Patterns of operators, and how an expression is unified with one."""
