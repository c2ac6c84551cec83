"""Evaluation over prime fields and over unknown functions."""
