"""Passes by which weights do, once and ahead, what was computed in each call: factors and sums.

`folding` moves factors behind a product into its weights; `addition` adds the weights of products
that are added. Every change is proven.
"""
