"""Known laws of tensor expressions as data: `known`, `held_out` and `unseen`; `wrong` are no laws.

A row is a `Law`: two texts that are equal (in `wrong`: that are not) for all inputs.
"""
