"""Layers of neural networks: convolutions, poolings, normalizations, attention, recurrent cells.

They may import `einalg.language.ops.definition`, `math` and `shape`. A new layer is a function with
the decorator `operator`, exported by `einalg.language.ops`.
"""
