"""Programs as ONNX models: operators where there is one, and elsewhere what their definitions say in element-wise ones (design §11)."""

from codegen.targets.onnx.model import onnx_model

__all__ = ["onnx_model"]
