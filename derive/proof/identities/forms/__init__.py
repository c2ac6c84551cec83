"""Normal forms of expressions that functions are in (design §9).

`polynomials` holds polynomials and what they are over, `signs` what is known of their signs. Above
them, in this order: `functions`, `calculus`, `conditions`, `rebuilding`, `entries`, `extremes`,
`binders`, `rewriting`. A new kind of atom is a class of `polynomials.atoms`, with its sign in
`signs` and its constructor here. Imports index arithmetic of `einalg.language` only.
"""
