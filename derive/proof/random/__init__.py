"""Proof by evaluation at random inputs (design §9).

`evaluation` is the entrance: over a random field, by rational numbers or in double precision, as
its `operations` allow. `places` chooses output points, `blocks` cuts them out, `inputs` draws, and
`prominent` chooses inputs by structure. `degrees` bounds what a field misses, `rounding` what
double precision leaves open; `precise` computes with many digits. `batches` evaluates many inputs
at once, `refutation` is a quick look for a difference before a proof is sought. Imports the
interpreters of `einalg.language`, `proof.outcome` and what `proof.exact` knows of structure. A
function whose values depend on an order is listed in `operations`.
"""
