"""Questions about expressions: canonical keys, validity, simplification, compile-time constants.

`canonical` gives equal expressions equal keys, `validate` checks them, `simplify` applies the table
of facts about ranges; `compile_time`, `overflow`, `infinite_integers`, `padded_reads`,
`accurate_forms` and `batching` answer one question each, `error_location` underlines the place of
an error, and `ranges` bounds numbers. These files may import `einalg.language.index` and `ir`. A
new question is a module here; a new fact about `//` and `%` is a row of `simplify.FACTS`.
"""
