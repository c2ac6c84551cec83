"""Bounds of numbers: what lies outside of them never occurs.

`interval_arithmetic` bounds what is computed of bounded numbers, `value_ranges` the values of
bodies, from the types of what they read. May import `einalg.language.index` and `ir`. Another
operation is a row of `value_ranges.RANGES`.
"""
