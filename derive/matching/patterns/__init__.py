"""Patterns of library operators, and how a scope is unified with one (design §7).

`normal_form` is what matching sees of a scope, `pattern` what it sees of a template; `unify` gives
the indices of a scope the roles of a pattern and lists the `reason`s against it; `instantiate`
writes the scope over these roles, so that it can be compared with the definition;
`operand_views` says what a library reads, `scalar_parameters` which numbers a definition takes.
Imports only `einalg.language`. A new thing that separates a scope from an operator is a `Reason`
in `unify`, with its weight in `reason.DistanceWeights`.
"""
