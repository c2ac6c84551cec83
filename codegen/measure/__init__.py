"""Measurements of this machine: times of kernels, rates of a roofline, installed tools.

Imports all of `codegen`; `einalg.api` and the command line ask it. A new measurement of whole
kernels or of the machine is added here.
"""
