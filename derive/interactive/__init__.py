"""Derivation by hand, without a front end: a session, and the moves that are possible in it.

It may import the other rooms of `derive` but `programs`; `einalg.api.session` adds what Jupyter
shows.
"""
