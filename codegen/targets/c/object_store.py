"""Generated kernels as shared objects.

Each kernel is compiled once, whatever programs it is a part of, and several compilers run at once.
Programs that a search or an optimizer compares differ in few kernels, and only these are compiled.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from math import inf

from codegen.ir.nodes import Function
from codegen.targets.c.compiler import KERNEL_CACHE, Compiler, load_library
from codegen.targets.c.source_file import c_source
from codegen.targets.c.thread_pool import REGIONS, attached
from einalg.runtime.clock import OutOfTime, time_left
from einalg.runtime.processes import Background, in_parallel
from einalg.runtime.processors import core_count
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

PLACES = DiskCache("places", ".json", "places of compiled kernels")
Place = tuple[str, int]  # the key of a shared object, and a kernel's position in it


@dataclass(frozen=True)
class _ObjectFile:
    """A C file of kernels, with the keys of their places in order."""

    compiler: Compiler
    keys: tuple[str, ...]
    text: str

    @classmethod
    def of(cls, compiler: Compiler, functions: Mapping[str, Function]) -> _ObjectFile:
        """Return the file of functions, which are by their keys."""
        text = REGIONS + c_source(list(functions.values()))
        return cls(compiler, tuple(functions), text)

    def compile(self, timeout: float) -> dict[str, Place]:
        """Compile the file, and return and store where its kernels lie."""
        self.compiler.compile(self.text, timeout)
        name = self.compiler.key(self.text)
        places: dict[str, Place] = {}
        for position, key in enumerate(self.keys):
            places[key] = name, position
            PLACES.replace(key, json.dumps([places[key]]).encode())
        return places


def compiler_for(compiler: Compiler, function: Function) -> Compiler:
    """Return a compiler with the flags that a function needs.

    Integers of a user wrap round on overflow, which C leaves undefined otherwise.
    """
    buffers = (*function.inputs, function.output)
    if any(buf.dtype[0] in "iu" for buf in buffers):
        return compiler.with_flags("-fwrapv")
    return compiler


def placed(
    compiler: Compiler, functions: Sequence[Function], sources: Sequence[str], timeout: float
) -> list[Place]:
    """Return where each kernel lies, compiled now where it is nowhere yet.

    `sources` are the C files of the kernels. Raises `CodegenError` as a compiler does.
    """
    keys = _keys(compiler, sources)
    key_of_all = text_digest(*keys)
    places = _read(key_of_all)
    if len(places) == len(functions):
        return places
    known = _stored_places(keys)
    missing = {key: k for k, key in enumerate(keys) if key not in known}
    sizes = {key: len(sources[k]) for key, k in missing.items()}
    files: list[_ObjectFile] = []
    for share in _balanced(sizes, min(core_count(), len(missing))):
        files.append(_ObjectFile.of(compiler, {key: functions[missing[key]] for key in share}))
    for compiled in in_parallel(lambda file: file.compile(timeout), files):
        known |= compiled
    places = [known[key] for key in keys]
    PLACES.replace(key_of_all, json.dumps(places).encode())
    return places


class BackgroundCompiler:
    """Compiles kernels while the caller does something else.

    What fails is compiled again, and reported, where its place is asked for. `finish` waits for
    all; `stop` kills the compilers, and what they had not finished leaves no trace.
    """

    def __init__(self, threads: int):
        self._threads, self._background = threads, Background(threads)
        self._files: list[Future[dict[str, Place]]] = []
        self._keys: set[str] = set()  # of kernels that were begun

    @property
    def is_free(self) -> bool:
        """Whether another compiler may start now."""
        return sum(not file.done() for file in self._files) < self._threads

    def begin(
        self,
        compiler: Compiler,
        functions: Sequence[Function],
        sources: Sequence[str],
        timeout: float,
    ) -> None:
        """Begin to compile those kernels that are nowhere yet, as one file."""
        keys = _keys(compiler, sources)
        known = _stored_places(keys)
        missing: dict[str, Function] = {}
        for key, function in zip(keys, functions):
            if key not in known and key not in self._keys:
                missing[key] = function
        if missing:
            self._keys |= missing.keys()
            file = _ObjectFile.of(compiler, missing)
            self._files.append(self._background.submit(file.compile, timeout))

    def finish(self) -> None:
        """Wait until no compiler runs, or until the time for the work is over."""
        left = time_left()
        if wait(self._files, None if left == inf else left).not_done:
            raise OutOfTime

    def stop(self) -> None:
        """Kill the compilers."""
        self._background.stop()


def loaded(compiler: Compiler, place: Place, timeout: float) -> ctypes.CDLL | None:
    """Return the shared object of a place, in this process; None where it is no longer there."""
    path = KERNEL_CACHE.find(place[0])
    if path is None:
        return None
    return attached(compiler, load_library(path), timeout)


def _keys(compiler: Compiler, sources: Sequence[str]) -> list[str]:
    """Return the keys of the places of kernels, whose C files these are."""
    return [compiler.key(REGIONS + source) for source in sources]


def _stored_places(keys: Sequence[str]) -> dict[str, Place]:
    """Return the places of those kernels that have been compiled before, by their keys."""
    known: dict[str, Place] = {}
    for key in dict.fromkeys(keys):
        places = _read(key)
        if places:
            known[key] = places[0]
    return known


def _balanced(sizes: dict[str, int], count: int) -> list[list[str]]:
    """Return keys in `count` shares of about the same size.

    >>> _balanced({"a": 5, "b": 3, "c": 2}, 2)
    [['a'], ['b', 'c']]
    """
    shares: list[list[str]] = [[] for _ in range(count)]
    totals = [0] * count
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        lightest = totals.index(min(totals))
        shares[lightest].append(key)
        totals[lightest] += sizes[key]
    return shares


def _read(key: str) -> list[Place]:
    """Return the places that are stored under a key; none where one of them is no longer there."""
    try:
        places = [
            (str(name), int(position)) for name, position in json.loads(PLACES.read(key) or b"[]")
        ]
    except (ValueError, TypeError):
        return []
    if all(KERNEL_CACHE.find(name) for name in {name for name, _ in places}):
        return places
    return []
