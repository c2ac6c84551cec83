"""Tests of `einalg/frontends/onnx`."""
