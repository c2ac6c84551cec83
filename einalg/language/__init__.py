"""The language: expressions, their notation, their meaning and the library operators (design
§2-§4).

`index` is arithmetic of indices, `ir` the nodes of an expression, `notation` text and Python
builders, `analysis` questions about expressions, `interpreters` their values, `ops` the operators.
Everything here may import `einalg.errors` and other parts of the language, and nothing else of
einalg; `derive`, `codegen` and the front ends import it. A new kind of node goes into `ir`, a new
operator into `ops`.
"""
