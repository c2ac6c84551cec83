"""Kernels as HTML: the expression of each beside its source, names marked in both.

It may import the pieces of HTML and the formulas of `einalg.display`. The colours of the kinds of
words in a source are those of the style sheet there.
"""
