"""The notation: text and Python builders in, expressions of `einalg.language.ir` out.

`parser` reads text (with `source`, `grammar`, `expression_parser`), `builders` holds `L`, `Sum` and
their kin, `einsum` reads equations, `range_inference` finds the ranges that are not written, and
`program_json` stores programs. These files may import `einalg.language.index`, `ir` and
`analysis`. A new word or sign of the notation goes into `grammar`, with its reading in
`expression_parser` and its printing in `einalg.language.ir.printing`.
"""
