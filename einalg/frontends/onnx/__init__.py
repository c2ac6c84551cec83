"""ONNX files as graphs: `load` (design §11).

`load` completes the inputs, `importer` goes through the nodes, `nodes` has what is known of a node
and the table of operators, whose entries are in `operators`. Imports of the package `onnx` happen
when a file is read. `einalg.api` and the command line import from here.
"""

from __future__ import annotations

from einalg.frontends.onnx.load import load

__all__ = ["load"]
