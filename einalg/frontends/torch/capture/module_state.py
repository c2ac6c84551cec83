"""The state that a call of a module leaves in Python's containers, and its removal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from einalg.frontends.torch.capture.shape_trace import Unrecorded

CONTAINERS = (dict, list, set, deque)


@dataclass(frozen=True)
class _Snapshot:
    """The content of a container of a module before a call."""

    owner: Any
    container: Any
    content: list[Any]

    def is_changed(self) -> bool:
        content = _content(self.container)
        if len(content) != len(self.content):
            return True
        return any(new is not old for new, old in zip(content, self.content))


@contextmanager
def unchanged(module: Any) -> Iterator[None]:
    """Restore what a call changes in the modules.

    Raises `Unrecorded` where that was anything, such as values for the next call.
    """
    before: list[_Snapshot] = []
    for owner in module.modules():
        for container in _containers(owner.__dict__):
            before.append(_Snapshot(owner, container, _content(container)))
    changed: list[_Snapshot] = []
    try:
        yield
    finally:
        changed += [snapshot for snapshot in before if snapshot.is_changed()]
        for snapshot in changed:
            _fill(snapshot.container, snapshot.content)
    if changed:
        raise Unrecorded(f"{type(changed[0].owner).__name__} keeps something of a call")


def _containers(value: Any) -> Iterator[Any]:
    """Yield the mutable containers of Python in a value, itself among them, at any depth."""
    waiting, seen = [value], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, (*CONTAINERS, tuple)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(_content(value))
            if not isinstance(value, tuple):
                yield value


def _content(container: Any) -> list[Any]:
    """Return what a container holds, in order; for a dictionary key, value, key, value, …"""
    if not isinstance(container, dict):
        return list(container)
    content: list[Any] = []
    for item in container.items():
        content.extend(item)
    return content


def _fill(container: Any, content: Sequence[Any]) -> None:
    """Make this the only content of a container."""
    container.clear()
    if isinstance(container, dict):
        container.update(zip(content[::2], content[1::2]))
    elif isinstance(container, set):
        container.update(content)
    else:
        container.extend(content)
