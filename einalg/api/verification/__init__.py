"""What einalg computes beside what a framework computes: the framework's results decide.

`deviation` compares arrays, `examples` makes the calls on which they are compared, `comparison`
goes through these, `localisation` finds the operator at fault, and `verification` leaves it to the
framework and begins anew. `verdicts` keeps what ended well for other processes. Used by
`einalg.api.optimization` and `einalg.api.torch_compile`. A new kind of input on which models are
compared is a row in `einalg.frontends.special_inputs`.
"""
