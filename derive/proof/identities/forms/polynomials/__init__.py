"""Laurent polynomials over atoms.

`laurent` holds polynomials, `atoms` what they are over, `factoring` their irreducible factors,
`integers` which are integers.
"""
