"""Choices that are measured on this machine, and stored: implementations and schedules.

`fingerprint` says what they depend on. `spaces` are the schedules that generated code may have, on
one scale of costs. Imports kernels, libraries, runtime and targets, but no program. A new choice is
a module with its `DiskCache`, keyed by a fingerprint.
"""
