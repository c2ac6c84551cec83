"""Costs of programs, estimated and measured (design §8).

`model` holds the roofline and the measured cost model, `backend` the protocol by which code
generation offers compiling and timing, `accuracy` and `memory` the bounds within which a candidate
may stand for a program. Imports `einalg` and one module of `derive.matching`; never `codegen`. A
new cost model implements `model.CostModel`.
"""
