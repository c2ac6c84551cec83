"""Operators of torch, said by operators of the language."""
