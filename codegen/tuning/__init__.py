"""Choices that are measured on this machine, and stored: implementations and tilings.

`fingerprint` says what they depend on. Imports kernels, libraries, runtime and targets, but no
program. A new choice is a module with its `DiskCache`, keyed by a fingerprint.
"""
