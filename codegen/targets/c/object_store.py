"""Generated kernels as shared objects.

Each kernel is compiled once, whatever programs it is a part of, and several compilers run at once.
Programs that a search or an optimizer compares differ in few kernels, and only these are compiled.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence

from codegen.ir.nodes import Function
from codegen.targets.c.compiler import KERNEL_CACHE, Compiler, load_library
from codegen.targets.c.source_file import c_source
from codegen.targets.c.thread_pool import REGIONS, attached
from einalg.runtime.processes import in_parallel
from einalg.runtime.processors import core_count
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

PLACES = DiskCache("places", ".json", "places of compiled kernels")
Place = tuple[str, int]  # the key of a shared object, and a kernel's position in it


def placed(
    compiler: Compiler, functions: Sequence[Function], sources: Sequence[str], timeout: float
) -> list[Place]:
    """Return where each kernel lies, compiled now where it is nowhere yet.

    `sources` are the C files of the kernels. Raises `CodegenError` as a compiler does.
    """
    keys = [compiler.key(REGIONS + source) for source in sources]
    key_of_all = text_digest(*keys)
    places = _read(key_of_all)
    if len(places) == len(functions):
        return places
    known = _stored_places(keys)
    missing = {key: k for k, key in enumerate(keys) if key not in known}
    sizes = {key: len(sources[k]) for key, k in missing.items()}
    shares = _balanced(sizes, min(core_count(), len(missing)))
    files = []
    for share in shares:
        files.append(REGIONS + c_source([functions[missing[key]] for key in share]))
    _compile_at_once(compiler, files, timeout)
    for share, file in zip(shares, files):
        for position, key in enumerate(share):
            known[key] = compiler.key(file), position
            PLACES.replace(key, json.dumps([known[key]]).encode())
    places = [known[key] for key in keys]
    PLACES.replace(key_of_all, json.dumps(places).encode())
    return places


def loaded(compiler: Compiler, place: Place, timeout: float) -> ctypes.CDLL | None:
    """Return the shared object of a place, in this process; None where it is no longer there."""
    path = KERNEL_CACHE.find(place[0])
    if path is None:
        return None
    return attached(compiler, load_library(path), timeout)


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


def _compile_at_once(compiler: Compiler, files: Sequence[str], timeout: float) -> None:
    in_parallel(lambda file: compiler.compile(file, timeout), files)


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
