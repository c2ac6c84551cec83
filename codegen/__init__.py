"""Code generation: programs with matched operators become kernels, and run.

A statement is lowered to the loop IR (`lowering`), or written as one of the kernels with a shape of
their own (`kernels`). `targets` print the IR as C, CUDA and ONNX, `libraries` bind operators that
exist already, `tuning` and `measure` choose, `program` puts calls together, and `runtime` makes
them; `export` writes programs as projects in C and CUDA. Imports `einalg` and never `derive`.
"""
