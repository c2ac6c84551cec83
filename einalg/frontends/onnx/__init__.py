"""ONNX files as graphs: `load` (design §11). The package `onnx` is imported when a file is read."""

from __future__ import annotations

from einalg.frontends.onnx.load import load

__all__ = ["load"]
