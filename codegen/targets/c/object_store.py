"""Generated kernels as shared objects: each is compiled once, whatever programs it is a part of, and by several compilers at once.

Programs that a search or an optimizer compares differ in few kernels, and only these are compiled.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from codegen.ir.nodes import Function
from codegen.targets.c.compiler import KERNEL_CACHE, Compiler, load_library
from codegen.targets.c.source_file import c_source
from codegen.targets.c.thread_pool import REGIONS, attached
from einalg.runtime.processors import core_count
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import text_digest

PLACES = DiskCache("places", ".json", "places of compiled kernels")
Place = tuple[str, int]  # the key of a shared object, and a kernel's position in it


def placed(
    compiler: Compiler, functions: Sequence[Function], sources: Sequence[str], timeout: float
) -> list[Place]:
    """For each kernel where it lies, compiled now where it is nowhere yet; `sources` are their C files. Raises `CodegenError` as a compiler does."""
    keys = [compiler.key(REGIONS + source) for source in sources]
    whole = text_digest(*keys)
    places = _read(whole)
    if len(places) != len(functions):
        places = _found_or_compiled(compiler, functions, sources, keys, timeout)
        PLACES.replace(whole, json.dumps(places).encode())
    return places


def loaded(compiler: Compiler, place: Place, timeout: float) -> ctypes.CDLL | None:
    """The shared object of a place, in this process; None where it is no longer there."""
    path = KERNEL_CACHE.find(place[0])
    return attached(compiler, load_library(path), timeout) if path else None


def _found_or_compiled(
    compiler: Compiler,
    functions: Sequence[Function],
    sources: Sequence[str],
    keys: Sequence[str],
    timeout: float,
) -> list[Place]:
    found = {key: place for key in dict.fromkeys(keys) for place in _read(key)[:1]}
    missing = {key: k for k, key in enumerate(keys) if key not in found}
    shares: list[list[str]] = [[] for _ in range(min(core_count(), len(missing)))]
    for key in sorted(missing, key=lambda key: -len(sources[missing[key]])):
        min(shares, key=lambda share: sum(len(sources[missing[k]]) for k in share)).append(key)
    files = [REGIONS + c_source([functions[missing[key]] for key in share]) for share in shares]
    with ThreadPoolExecutor(max(1, len(files))) as pool:
        for _ in pool.map(lambda file: compiler.compile(file, timeout), files):
            pass
    for share, file in zip(shares, files):
        for position, key in enumerate(share):
            found[key] = compiler.key(file), position
            PLACES.replace(key, json.dumps([found[key]]).encode())
    return [found[key] for key in keys]


def _read(key: str) -> list[Place]:
    """The places that are kept under a key; none where one of them is no longer there."""
    try:
        places = [
            (str(name), int(position)) for name, position in json.loads(PLACES.read(key) or b"[]")
        ]
    except (ValueError, TypeError):
        return []
    return places if all(KERNEL_CACHE.find(name) for name in {name for name, _ in places}) else []
