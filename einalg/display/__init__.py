"""Pictures for notebooks, as HTML, SVG, MathML and figures of Matplotlib.

`html` has the style sheet, tables and badges that all share; `mathml`, `tree_svg`, `cost_bars`,
`roofline_svg`, `footprint` and `kernels` draw one kind of thing each, `formula_parts` mathematics
that can be pointed at, and `results` the values that `derive` returns; `network_graph` is a value
that has a picture there. It may import the language, `einalg.text` and the result types of
`derive`. Importing it needs no notebook package; what needs one imports it when it is used
(`einalg[notebook]`).
"""
