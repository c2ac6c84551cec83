"""`assert_equal`: a function of a user's own compared with an expression.

`problem` is the expression with its values and how far rounding may move them, `world` the shapes
that count, `case` one call and the fault that it shows, `search` looks for a case at fault,
`shrinking` makes it as small as can be, `formula`, `code_text` and `report` say it, `tracing`
proves where there is an expression of the function, `expressions` are there in the place of
functions. `assertion` joins them. It imports `derive`, and hypothesis where a search begins.
"""
