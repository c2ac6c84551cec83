"""Small rule files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONV = {"stride": [1, 1], "pad": "same"}
K3 = {"kernel": [3, 3]}


def op(operator: str, *inputs: Any, **parameters: Any) -> dict[str, Any]:
    """An operation; an integer reads a leaf, a string the operation of that place."""
    sources = []
    for source in inputs:
        sources.append(["op", int(source), 0] if isinstance(source, str) else ["in", source])
    return {"op": operator, "params": parameters, "inputs": sources}


def rule(name: str, src: list[Any], dst: list[Any], *outputs: Any) -> dict[str, Any]:
    """A rule whose output is the last operation of each side, if no pairs are given."""
    pairs = outputs or ({"src": [len(src) - 1, 0], "dst": [len(dst) - 1, 0]},)
    return {"name": name, "src": src, "dst": dst, "outputs": list(pairs)}


def conv(data: Any, weight: Any, act: str = "none", **parameters: Any) -> dict[str, Any]:
    return op("conv2d", data, weight, **{**CONV, **K3, "act": act, **parameters})


def _free_conv(data: Any, weight: Any, act: str = "none") -> dict[str, Any]:
    return op("conv2d", data, weight, **CONV, act=act)


# Kernels of any sizes, twice: a minute does not decide that.
SLOW = rule(
    "slow",
    [_free_conv(1, 2), op("relu", "0"), _free_conv("1", 2)],
    [op("enlarge", 2, kernel=[7, 7]), _free_conv(1, "0", "relu"), _free_conv("1", "0")],
)


def write(folder: Path, *rules: dict[str, Any]) -> Path:
    path = folder / "rules.json"
    path.write_text(json.dumps({"sets": {"set": {"rules": list(rules)}}}))
    return path
