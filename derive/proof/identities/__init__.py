"""Proof by the laws of functions (design §9).

`compare` is the entrance: `reading` writes both sides in normal form (`forms`), and `cases` shows
that their difference is 0, if need be in every case of the choices in it. `cuts` goes step by step
where values are nested deeply. `laws` is the list of the laws that the normal forms apply. What is
real is meant: denominators are not 0, and where values have none, both sides have none. Imports
`einalg.language`, the index conditions of `proof.exact` and an evaluation of `proof.random`.
"""
