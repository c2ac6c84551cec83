"""Programs as ONNX models (design §11).

Kernels become operators where ONNX has one (`operators`); the bodies of all other statements are
element-wise nodes (`body`). Imports the loop IR's buffers and the language, and no other target.
Add an operator as a row of `operators.OPERATORS`, a scalar function in the tables of `body`.
"""

from codegen.targets.onnx.model import onnx_model

__all__ = ["onnx_model"]
