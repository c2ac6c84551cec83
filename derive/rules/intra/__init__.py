"""Rules within one scope: its indices, its reductions, its inner scopes.

They import `derive.rewriting` alone. A rule that renames points, moves reductions in and out, or
changes a domain goes here.
"""
