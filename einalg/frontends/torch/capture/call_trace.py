"""Which operators a call of a module calls, found out on shapes alone: whether a module still is the one that was exported once.

Exporting takes seconds; to follow a call that is known takes milliseconds, for not even shapes are computed then.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from einalg.frontends.torch.capture.recurrent_ops import kept_whole

LOG = logging.getLogger("einalg")
Row = Any  # a result as JSON values: a tensor's shape, strides and dtype; the number of one that was there before; a list or tuple, by that word
Call = list[Any]  # an operator with its arguments as text, then its row
Answer = Callable[[str, Callable[[], Row]], Row]
CONTAINERS = (dict, list, set, deque)


class Unrecorded(Exception):
    """A call does what shapes do not decide, or what is not recorded."""


def recorded(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[Call] | None:
    """The operators of a call, the last one standing for what it returns; None where values decide, or anything but the CPU takes part."""
    calls: list[Call] = []

    def answer(text: str, compute: Callable[[], Row]) -> Row:
        calls.append([text, compute()])
        return calls[-1][1]

    return calls if _followed(module, arguments, keywords, answer) else None


def repeats(
    calls: Sequence[Call], module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> bool:
    """Whether a call calls these operators with these arguments, no other ones, and returns the same."""
    left = iter(calls)

    def answer(text: str, compute: Callable[[], Row]) -> Row:
        known, row = next(left, ("", None))
        if text != known:
            raise Unrecorded(f"{text} in the place of {known or 'nothing'}")
        return row

    return _followed(module, arguments, keywords, answer) and next(left, None) is None


def described(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str | None:
    """What is seen of a call before it is made: modules, names and shapes of weights, arguments.

    None where it is not recorded: autocast would keep weights without values for the next call of the module.
    """
    import torch
    from torch.utils._pytree import tree_flatten

    if torch.is_autocast_enabled("cpu"):
        return None
    leaves, spec = tree_flatten((tuple(arguments), dict(keywords)))
    try:
        given = [
            _shape(leaf) if isinstance(leaf, torch.Tensor) else _text(leaf, {}) for leaf in leaves
        ]
        first: dict[int, str] = {}
        weights = [
            (name, _shape(tensor), first.setdefault(id(tensor), name))
            for name, tensor in tensors_of(module).items()
        ]
    except (
        Unrecorded,
        RuntimeError,
        ValueError,
    ):  # of torch, for a parameter that has no shape yet
        return None
    return repr(
        (
            torch.__version__,
            torch.get_default_dtype(),
            [*map(_kind, module.named_modules())],
            weights,
            str(spec),
            given,
        )
    )


def _kind(named: tuple[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """A module with its class and what it says of itself in plain values."""
    name, own = named
    plain = {key: value for key, value in own.__dict__.items() if _is_plain(value)}
    return name, f"{type(own).__module__}.{type(own).__qualname__}", plain


def _is_plain(value: Any) -> bool:
    return (
        value is None
        or type(value) in (bool, int, float, str)
        or (type(value) in (tuple, list) and all(map(_is_plain, value)))
    )


def tensors_of(module: Any) -> dict[str, Any]:
    """Parameters and buffers by their names; one that has several is under each."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _followed(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], answer: Answer
) -> bool:
    """Make a call on shapes, and ask for the results of every operator; whether it came to its end, and left the module as it was."""
    import torch
    from torch.utils._pytree import tree_flatten, tree_map

    if isinstance(module, torch.jit.ScriptModule):
        return False
    _, mode_kind = _classes()
    mode = mode_kind(
        {id(tensor): name for name, tensor in reversed(tensors_of(module).items())}, answer
    )
    given, named = tree_map(
        lambda leaf: mode.input(leaf) if isinstance(leaf, torch.Tensor) else leaf,
        (tuple(arguments), dict(keywords)),
    )
    try:
        with torch.no_grad(), _unchanged(module):
            with kept_whole(), mode:
                result = module(*given, **named)
            leaves, spec = tree_flatten(result)
            answer(f"return {spec} {mode.text(leaves)}", lambda: None)
    except (
        Exception
    ) as error:  # whatever a module raises, its graph is exported then, which tells it better
        LOG.debug("einalg: a call of %s is not recorded: %s", type(module).__name__, error)
        return False
    return True


@contextmanager
def _unchanged(module: Any) -> Iterator[None]:
    """Put back what a call leaves in the modules; `Unrecorded` where that was anything, such as values that are kept for the next call."""
    before = [
        (own, [(held, _content(held)) for held in _containers(own.__dict__)])
        for own in module.modules()
    ]
    try:
        yield
    finally:
        changed = [
            (own, held, known)
            for own, all_held in before
            for held, known in all_held
            if not _is_same(_content(held), known)
        ]
        for _, held, known in changed:
            _fill(held, known)
    if changed:
        raise Unrecorded(f"{type(changed[0][0]).__name__} keeps something of a call")


def _containers(value: Any) -> Iterator[Any]:
    """A container of Python that can be changed, and those in it, at any depth."""
    waiting, seen = [value], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, (*CONTAINERS, tuple)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(_content(value))
            if not isinstance(value, tuple):
                yield value


def _content(held: Any) -> list[Any]:
    """What a container holds, in order; keys and values of a dictionary in turns."""
    return (
        [thing for item in held.items() for thing in item] if isinstance(held, dict) else list(held)
    )


def _is_same(content: Sequence[Any], known: Sequence[Any]) -> bool:
    return len(content) == len(known) and all(a is b for a, b in zip(content, known))


def _fill(held: Any, content: Sequence[Any]) -> None:
    """Let a container hold this alone."""
    held.clear()
    if isinstance(held, dict):
        held.update(zip(content[::2], content[1::2]))
    else:
        (held.update if isinstance(held, set) else held.extend)(content)


def _shape(tensor: Any) -> list[Any]:
    """Shape, strides and dtype of a tensor of the CPU; `Unrecorded` for any other one."""
    import torch

    if (
        tensor.device.type not in ("cpu", "meta")
        or tensor.layout is not torch.strided
        or tensor.is_quantized
        or tensor.is_conj()
        or tensor.is_neg()
    ):
        raise Unrecorded(f"a tensor of {tensor.device}, {tensor.layout}, {tensor.dtype}")
    return [list(tensor.shape), list(tensor.stride()), str(tensor.dtype)]


def _text(value: Any, names: Mapping[int, str]) -> str:
    """Arguments as text, tensors by their names."""
    import torch

    if isinstance(value, torch.Tensor):
        if id(value) not in names:
            raise Unrecorded("a tensor that is no weight, input or result")
        return names[id(value)]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(one, names) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}={_text(one, names)}' for key, one in value.items())}}}"
    if value is None or isinstance(
        value,
        (
            bool,
            int,
            float,
            complex,
            str,
            torch.dtype,
            torch.device,
            torch.layout,
            torch.memory_format,
        ),
    ):
        return repr(value)
    raise Unrecorded(f"an argument of the kind {type(value).__name__}")


@cache
def _classes() -> tuple[Any, Any]:
    """A tensor without values, and the mode in which operators are asked for: classes of torch, which is imported with the first."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    class Shape(torch.Tensor):
        """A tensor of the CPU that has no values; `inner` is its like on torch's device for shapes, None where nothing is computed."""

        __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
        inner: Any

        @staticmethod
        def __new__(cls: Any, row: Row, inner: Any) -> Any:
            shape, strides, dtype = row
            kind = getattr(torch, dtype.removeprefix("torch."))
            made = torch.Tensor._make_wrapper_subclass(
                cls, shape, strides=strides, dtype=kind, device="cpu"
            )  # type: ignore[attr-defined]
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise Unrecorded(f"{func} outside of the call")

    class Mode(TorchDispatchMode):
        def __init__(self, weights: Mapping[int, str], answer: Answer):
            super().__init__()
            self.names, self.answer = dict(weights), answer
            self.kept: list[
                Any
            ] = []  # the tensors without values, so that none takes the place in memory, and with it the name, of another
            self.of_weights: dict[str, Any] = {}

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # which would import all of it

        def input(self, tensor: Any) -> Any:
            return self.new(_shape(tensor), _on_meta(tensor))

        def new(self, row: Row, inner: Any) -> Any:
            made = Shape(row, inner)
            self.names[id(made)] = f"%{len(self.kept)}"
            self.kept.append(made)
            return made

        def text(self, value: Any) -> str:
            return _text(value, self.names)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            inners: list[Any] = []  # of the results, in order, where these are computed

            def compute() -> Row:
                result = self.computed(func, args, kwargs)
                return self.row(result, func, inners)

            row = self.answer(f"{func} {self.text(args)} {self.text(kwargs)}", compute)
            return self.result(row, iter(inners))

        def computed(self, func: Any, args: Any, kwargs: Any) -> Any:
            """The results on torch's device for shapes."""
            given, named = tree_map(
                lambda leaf: self.inner(leaf) if isinstance(leaf, torch.Tensor) else leaf,
                (args, kwargs),
            )
            if any(entry.name == "device" for entry in func._schema.arguments):
                named = {**named, "device": "meta"}
            result = func(*given, **named)
            if func._schema.is_mutable:
                self.check(args, kwargs)
            return result

        def inner(self, tensor: Any) -> Any:
            if isinstance(tensor, Shape):
                return tensor.inner
            name = self.text(tensor)
            if name not in self.of_weights:
                _shape(tensor)
                self.of_weights[name] = _on_meta(tensor)
            return self.of_weights[name]

        def check(self, *given: Any) -> None:
            """Raise `Unrecorded` where an operator that writes was given a weight, or has changed the shape of anything."""

            def one(leaf: Any) -> None:
                if isinstance(leaf, torch.Tensor) and (
                    not isinstance(leaf, Shape) or _shape(leaf) != _shape(leaf.inner)
                ):
                    raise Unrecorded(
                        "an operator writes to a weight, or gives memory another shape"
                    )

            tree_map(one, given)

        def row(self, result: Any, func: Any, inners: list[Any]) -> Row:
            if isinstance(result, torch.Tensor):
                same = next((k for k, made in enumerate(self.kept) if made.inner is result), None)
                if same is not None:
                    return same
                inners.append(result)
                return _shape(result)
            if isinstance(result, (list, tuple)):
                return {type(result).__name__: [self.row(one, func, inners) for one in result]}
            if result is None:
                return None
            raise Unrecorded(f"{func} gives a {type(result).__name__}")

        def result(self, row: Row, inners: Iterator[Any]) -> Any:
            if isinstance(row, dict):
                ((kind, rows),) = row.items()
                parts = [self.result(one, inners) for one in rows]
                return tuple(parts) if kind == "tuple" else parts
            if isinstance(row, int):
                return self.kept[row]
            return None if row is None else self.new(row, next(inners, None))

    return Shape, Mode


def _on_meta(tensor: Any) -> Any:
    import torch

    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
