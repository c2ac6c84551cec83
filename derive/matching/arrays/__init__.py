"""Matching of operators on arrays of any rank: those that move or map elements (design §7).

`match` proposes parameters and verifies them, `parameter_sources` are the places of a scope from
which parameters may be read, `axis_order` and `inlining` bring a scope into the form in which it is
compared. Imports `derive.matching.patterns`, nothing above it. A template names its sources by the
keys of `parameter_sources.SOURCES`; a new kind of parameter is a function there.
"""
