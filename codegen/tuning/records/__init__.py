"""Records of tuning: a log of all that was measured, and the winners that compilations use.

`provenance` says on what times depend, `log` is append-only JSON Lines, `winners` the cache of the
fastest points. Records of another machine, compiler or schema are refused, not mixed. May import
the targets and the spaces.
"""
