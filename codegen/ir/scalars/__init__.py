"""Scalar bodies as values: SymPy's formulas in the types in which they are computed.

`translation` walks a body; `functions` and `products` make values of those of its operands, and
`index_parts` finds what is made of indices alone. `settled_types` widens the types of parts that
the whole asks for more, by the bounds in `intervals`, and `folding` simplifies constants. May
import `codegen.ir` and `einalg.language`. A function is added to the tables of `functions`, and to
every printer in `codegen.targets`.
"""
