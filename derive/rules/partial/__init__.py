"""Partial equivalence: scopes that equal another one at some points only, and their correction
(PET, design §15).

`arrangements` computes a scope on other axes than its own: tiles, images side by side, phases one
after another. `mutations` names these, and other subscripts, by JSON values, proposes them and
makes them. `regions` covers the points at which two scopes differ. `partial_substitution` is the
rule, `mutants` lists what there is to substitute.
"""
