"""Passes by which weights do, once and ahead, what was computed in each call: factors and sums.

`folding` moves factors behind a product into its weights; `addition` adds the weights of products
that are added, and `repetition` those of taps that read the same element. They look at the
`weighted_sums` of data. Every change is proven.
"""
