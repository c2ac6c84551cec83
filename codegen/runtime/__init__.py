"""Calls of compiled kernels: arrays in, addresses to C, memory for what is between kernels.

Imports `codegen.ir` and `codegen.targets.c`, and knows no program and no operator. Whatever a call
of a program needs at run time is added here.
"""
