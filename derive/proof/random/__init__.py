"""Proof by evaluation at random inputs (design §9).

`evaluation` is the entrance: over a prime field, by rational numbers or in double precision, as the
`laws` that an expression obeys allow. `blocks` cuts outputs that are too large, `rounding` bounds
what double precision leaves open. `refutation` is a quick look for
a difference before a proof is sought. Imports the interpreters of `einalg.language` and
`proof.outcome`. A function whose values obey an order or a law of its own is listed in `laws`.
"""
