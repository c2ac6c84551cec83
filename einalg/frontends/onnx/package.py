"""The onnx package, which is an extra: imported where it is used."""

from __future__ import annotations

from typing import Any

from einalg.errors import EinalgError


def onnx_package() -> Any:
    """The module `onnx`; an `EinalgError` with the remedy where it is not installed."""
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.numpy_helper
        import onnx.reference
        import onnx.shape_inference
    except ImportError as error:
        raise EinalgError("reading ONNX files needs the package onnx, which is not installed\n  pip install 'einalg[onnx]'") from error
    return onnx


def onnxruntime_package() -> Any:
    """The module `onnxruntime`, or None where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime
