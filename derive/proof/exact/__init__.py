"""Proof by comparison of access relations (design §9).

`compare` is the entrance. `inlining` writes a scope out as a `polynomial` over elements of tensors,
with `guards`; `constant_tables` carries out sums over constants (its tables as conditions:
`point_sets`); `ranges` knows what types and functions bound; `congruence` gives functions of equal
arguments equal names; `relations` counts with isl, by `products`, where two polynomials differ.
Imports `einalg.language` and `proof.outcome`.
What has no exact form raises `OutsideFragment`; widen the fragment in `inlining`.
"""
