"""The targets of kernels: C for the CPU, CUDA for a GPU, or an ONNX model.

Each target is a folder that reads the loop IR (`codegen.ir`) and lowered or matched kernels
(`codegen.lowering`, `codegen.kernels`); `cuda` uses the printer of `c`, and no other target knows
another one. Nothing here knows programs: `codegen.program` chooses and calls kernels. Add a target
as a folder, with a lowering where the loops of `codegen.lowering` do not fit it.
"""
