"""Few full collections of Python's cyclic garbage while expressions are rewritten.

A full collection looks at all objects of the process, half a second of them where torch is loaded,
and finds next to nothing: expressions are trees, which are freed without it. Younger objects are
collected as often as ever.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

MIN_COLLECTIONS = 1000  # of younger objects, between two full ones; Python's own number is 10


class _FewFullCollections:
    """While some thread is in this context, full collections are rare; then as often as before."""

    def __init__(self) -> None:
        self._lock, self._entered = Lock(), 0
        self._before = self._within = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._before = gc.get_threshold()
                youngest, younger, full = self._before
                self._within = youngest, younger, max(full, MIN_COLLECTIONS)
                gc.set_threshold(*self._within)

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0 and gc.get_threshold() == self._within:
                gc.set_threshold(*self._before)


FEW_FULL_COLLECTIONS = _FewFullCollections()


def with_few_full_collections(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Return a function during which full collections are rare.

    >>> rarely = with_few_full_collections(lambda: gc.get_threshold()[2])
    >>> rarely() >= MIN_COLLECTIONS, gc.get_threshold()[2] >= MIN_COLLECTIONS
    (True, False)
    """

    @wraps(function)
    def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        with FEW_FULL_COLLECTIONS:
            return function(*arguments, **named)

    return call
