"""Arithmetic modulo a prime for the NumPy interpreter: an exact test of identities.

`field` is the arithmetic, with its table of identities that it respects; `modular` computes with
residues, `extended` adds infinities and an order, `uninterpreted` draws functions that a field does
not have; `quadratic` is the field of p² elements, `primes` draws p. These files may import
`einalg.language.index` and `interpreters.numpy`. A function with identities of its own gets a
branch in `PrimeField.function` and a line in the docstring of `field`.
"""
