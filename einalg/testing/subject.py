"""The function that is tested: the kind of arrays that it takes, calls of it, and its results as
NumPy arrays.
"""

from __future__ import annotations

import inspect
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from einalg.errors import ShapeError

Array = np.ndarray[Any, Any]
NUMPY, TORCH, JAX = "numpy", "torch", "jax"
LIBRARIES = (TORCH, JAX)  # beside NumPy, which every function may take


@dataclass(frozen=True)
class Subject:
    """A function of arrays of one library."""

    function: Callable[..., Any]
    library: str

    @property
    def name(self) -> str:
        """The name of the function, as a message calls it."""
        return name_of(self.function)

    def call_text(self, arguments: Sequence[str]) -> str:
        """Return a call as code has it.

        >>> Subject(lambda x, k: x, NUMPY).call_text(["x", "k"])
        'function(x, k)'
        """
        if hasattr(self.function, "call_text"):
            return self.function.call_text(arguments)  # type: ignore[attr-defined]
        name = self.name.replace("the ", "")
        if not hasattr(self.function, "__name__"):
            name += "(…)"
        return f"{name}({', '.join(arguments)})"

    def call(self, arrays: Sequence[Array], dtypes: Sequence[str]) -> SubjectCall:
        """Call the function, with arrays that it may keep."""
        arguments = [self.argument(array, dtype) for array, dtype in zip(arrays, dtypes)]
        before = [_bytes(as_array(argument)) for argument in arguments]
        with warnings.catch_warnings():  # overflow and the like show in the result
            warnings.simplefilter("ignore")
            result = self.function(*arguments)
        changed = None
        for place, argument in enumerate(arguments):
            if _bytes(as_array(argument)) != before[place]:
                changed = (place, np.array(as_array(argument)))
                break
        return SubjectCall(result, changed)

    def argument(self, array: Array, dtype: str) -> Any:
        """Return an array as one of the library's."""
        if self.library == TORCH:
            return _torch_tensor(array, dtype)
        if self.library == JAX:
            return sys.modules["jax"].numpy.asarray(array)
        return array


@dataclass(frozen=True)
class SubjectCall:
    """The result of a call, and the first argument that it changed with what it is now."""

    result: Any
    changed: tuple[int, Array] | None


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _torch_tensor(array: Array, dtype: str) -> Any:
    """Return a tensor with the layout of an array; torch has no strides below 0."""
    torch = sys.modules["torch"]
    if any(stride < 0 for stride in array.strides):
        array = np.array(array)
    tensor = torch.from_numpy(array)
    return tensor.to(torch.bfloat16) if dtype == "bf16" else tensor


def as_array(value: Any) -> Array:
    """Return a result as a NumPy array; `ShapeError` for what is none.

    >>> as_array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if value is None:
        raise ShapeError("it returns None\n  return an array")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype is torch.bfloat16:
            value = value.float()
        return value.numpy()
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        array = np.asarray(value)
    except Exception as error:  # of rows of different lengths, or of a class that is not ours
        raise ShapeError(f"it cannot be read as an array: {error}\n  return an array") from None
    if array.dtype.name == "bfloat16":  # of the package ml_dtypes
        array = array.astype(np.float32)
    if array.dtype.kind not in "biufc":
        raise ShapeError(
            f"it returns a {type(value).__name__}, which is no array of numbers\n"
            "  return an array of numbers"
        )
    return array


def as_arrays(result: Any, outputs: Sequence[str]) -> list[Any]:
    """Return the results for the outputs of an expression: one, or those in a row, or by name."""
    if len(outputs) == 1 and not isinstance(result, Mapping):
        is_pack = isinstance(result, tuple) and len(result) == 1
        return [result[0] if is_pack else result]
    if isinstance(result, Mapping):
        if set(result) != set(outputs):
            raise ShapeError(
                f"it has the keys {', '.join(map(str, result))}\n"
                f"  return the outputs {', '.join(outputs)}"
            )
        return [result[name] for name in outputs]
    if not isinstance(result, (tuple, list)) or len(result) != len(outputs):
        count = len(result) if isinstance(result, (tuple, list)) else 1
        raise ShapeError(
            f"{count} results are returned, and {len(outputs)} are expected\n"
            f"  return a tuple: {', '.join(outputs)}"
        )
    return list(result)


def libraries_of(function: Any) -> list[str]:
    """Return the libraries whose arrays a function may take, the likeliest first.

    Annotations decide where there are some; then the modules that the function names.
    """
    loaded = [name for name in LIBRARIES if name in sys.modules]
    if TORCH in loaded and isinstance(function, sys.modules[TORCH].nn.Module):
        return [TORCH]
    annotated = _annotated(function)
    if annotated:
        return [annotated]
    named = _named_modules(function)
    wanted = [name for name in loaded if name in named]
    if NUMPY in named:
        return [NUMPY, *wanted]
    others = [name for name in loaded if name not in wanted]
    return [*wanted, NUMPY, *others]


def _annotated(function: Any) -> str | None:
    annotations = getattr(inspect.unwrap(function), "__annotations__", {})
    for name, annotation in annotations.items():
        if name == "return":
            continue
        text = annotation if isinstance(annotation, str) else _module_of(annotation)
        for library in LIBRARIES:
            if library in sys.modules and text.partition(".")[0] in (library, f"{library}lib"):
                return library
        if text.partition(".")[0] in (NUMPY, "np"):
            return NUMPY
    return None


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", ""))


def _named_modules(function: Any) -> set[str]:
    """Return the packages whose names, or whose functions' names, a function's code has."""
    target = inspect.unwrap(function)
    target = getattr(target, "func", target)  # of functools.partial
    target = getattr(target, "__func__", target)
    code = getattr(target, "__code__", None)
    if code is None:
        target = inspect.getattr_static(type(target), "__call__", None)
        code = getattr(target, "__code__", None)
    if code is None:
        return {_module_of(function).partition(".")[0]}
    known = dict(getattr(target, "__globals__", {}))
    for name, cell in zip(code.co_freevars, getattr(target, "__closure__", None) or ()):
        with suppress(ValueError):  # of a cell that is empty yet
            known[name] = cell.cell_contents
    packages: set[str] = set()
    for name in _names_in(code):
        value = known.get(name)
        module = getattr(value, "__name__", "") if inspect.ismodule(value) else _module_of(value)
        packages.add(module.partition(".")[0])
    return packages


def _names_in(code: Any) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _names_in(constant)


def name_of(function: Any) -> str:
    """Return the name of a function as a message calls it.

    >>> name_of(lambda x: x), name_of(sorted)
    ('the function', 'sorted')
    """
    name = getattr(function, "__name__", None)
    if name is None:
        inner = getattr(function, "func", None)  # of functools.partial
        name = getattr(inner, "__name__", None) or type(function).__name__
    return "the function" if name == "<lambda>" else str(name)


def parameter_names(function: Any) -> list[str]:
    """Return the names of the parameters that take arrays in their places, which have no default;
    none where they are not known.

    >>> parameter_names(lambda x, k, stride=1: x)
    ['x', 'k']
    """
    target = getattr(function, "forward", function)
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in places and p.default is p.empty]


@contextmanager
def fixed_random_numbers(seed: int) -> Iterator[None]:
    """Draw the same random numbers inside whenever it is entered, and leave generators as before.

    >>> draws = []
    >>> for _ in range(2):
    ...     with fixed_random_numbers(0):
    ...         draws.append(np.random.rand())
    >>> draws[0] == draws[1]
    True
    """
    python, legacy = random.getstate(), np.random.get_state()
    torch = sys.modules.get(TORCH)
    tensors = torch.get_rng_state() if torch is not None else None
    random.seed(seed)
    np.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)
        if torch is not None:
            torch.set_rng_state(tensors)
