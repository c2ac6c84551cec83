"""Facts of the machine: vector registers, caches, cores.

Imports nothing else of `codegen`. What code generation has to know of another kind of machine is
added here.
"""
