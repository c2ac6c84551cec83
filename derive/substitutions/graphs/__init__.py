"""Rules as graphs of operators whose sizes are open: their operators, what these demand of axes,
and more general rules of which a rule is a case.
"""
