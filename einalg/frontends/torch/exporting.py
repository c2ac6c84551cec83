"""Modules as ATen graphs, through `torch.export`: what einalg has whole is not taken apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from einalg.errors import NotationError, ShapeError
from einalg.frontends.torch.functional import gives_new, is_expressed, without_writes
from einalg.frontends.torch.registry import ATEN, TrainingMode
from einalg.frontends.torch.whole import kept_whole


def exported(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """An exported program, of operators of the table where these are all, else taken apart into core ATen but for these; shapes are the arguments'.

    Raises `ShapeError` for arguments that the module does not take, `NotationError` for what torch cannot export.
    """
    import torch

    _require_arguments(module, arguments, keywords)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        try:
            with kept_whole():
                program = torch.export.export(module, tuple(arguments), dict(keywords), strict=False)
            # The graph calls what the module calls; to take that apart takes longer than to trace it.
            is_functional = without_writes(program.graph_module)
            if is_functional and is_expressed(program.graph):
                return program
            return program.run_decompositions(decompositions() if is_functional else decompositions(gives_new))
        except TrainingMode:
            raise
        except Exception as error:  # of many kinds, none of which torch names as its own
            first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            message = f"torch.export has no graph of {type(module).__name__}: {first}"
            remedy = "compile what can be traced: torch.compile(module, backend='einalg')"
            raise NotationError(f"{message}\n  {remedy}") from error


def _require_arguments(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    try:
        parameters = signature(module.forward)
    except (TypeError, ValueError):  # of code without one
        return
    try:
        parameters.bind(*arguments, **keywords)
    except TypeError as error:
        takes = f"{type(module).__name__} takes the arguments ({', '.join(parameters.parameters)})"
        raise ShapeError(f"{takes}, and the example inputs do not fit: {error}\n  give the arguments of one call, as a tuple") from None


def decompositions(kept: Callable[[Any], bool] = lambda operator: True) -> Any:
    """Torch's table for core ATen, without what einalg has an expression for and is `kept`."""
    import torch

    table = torch.export.default_decompositions()
    for known in filter(None, map(operator_named, ATEN)):
        if kept(known):
            table.pop(known, None)
    return table


def operator_named(name: str) -> Any:
    """The operator of an entry of the table; None where this version of torch has no such one."""
    import torch

    base, overload = name.rsplit(".", 1)
    return getattr(getattr(torch.ops.aten, base, None), overload, None)
