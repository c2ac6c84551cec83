"""Derivations and networks in a notebook: one function from a value of `derive` to HTML each.

It may import `derive`, `einalg.text` and the pieces of HTML in `einalg.display`.
`einalg.api.representations` gives the functions to the classes as their `_repr_html_`: a new kind
of result gets its function here and its row there.
"""
