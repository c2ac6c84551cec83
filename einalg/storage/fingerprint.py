"""Digests of all that a cached entry depends on: texts, arrays, code, machine and libraries.

A key is made by `Fingerprint.key`, from what the entries of one kind depend on and what the entry
is about. Of einalg's own code that is a set of folders: `KERNEL_CODE` for a compiled kernel, so
that another command of the command line leaves the kernels as they are. Docstrings and comments
count for nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from einalg.storage.disk_cache import DiskCache

PACKAGES = ("einalg", "derive", "codegen")
KERNEL_CODE = ("codegen", "einalg/language")  # what a generated kernel depends on
COST_CODE = (*KERNEL_CODE, "einalg/runtime")  # what measured seconds depend on
SEARCH_CODE = (*COST_CODE, "derive")  # what the best candidate of a search depends on
IMPORT_CODE = ("einalg/frontends", "einalg/language")  # what an imported graph depends on
# what the results of an optimized model depend on
VERIFICATION_CODE = (*SEARCH_CODE, "einalg/frontends", "einalg/api")
SOURCE_ROOT = Path(__file__).parents[2]
CODE_DIGESTS = DiskCache("code", ".json", "digests of einalg's own code")

_QUOTES = '"' * 3
_BEFORE_COMMENT = re.compile(
    r"""(?: [^"'\#] | "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )*""", re.VERBOSE
)


@dataclass(frozen=True)
class Fingerprint:
    """Everything that cached entries of one kind depend on, besides what they are about.

    `code` names the folders of einalg's own code that compute them, `machine` the processor and
    its threads, `compiler` its command, version and flags, `libraries` those that take part, each
    with its version.

    >>> fingerprint = Fingerprint(KERNEL_CODE, machine="x86-64, 2 cores", libraries=("numpy 2.1",))
    >>> len(fingerprint.key("O[i] = A[i]"))
    64
    """

    code: tuple[str, ...]
    machine: str = ""
    compiler: str = ""
    libraries: tuple[str, ...] = ()

    def text(self) -> str:
        """Return all of it as one text: two are equal only where entries may be shared."""
        parts = (code_digest(*self.code), self.machine, self.compiler, *self.libraries)
        return "\n".join(parts)

    def key(self, *subject: str) -> str:
        """Return the key of an entry that is about `subject`."""
        return text_digest(self.text(), *subject)


def text_digest(*parts: str) -> str:
    """Return a key of 64 hexadecimal digits for some texts, in order.

    >>> text_digest("layer", "4")[:8], text_digest("layer4")[:8]
    ('e7e687c8', '6613a3c1')
    """
    return sha256("\0".join(parts).encode()).hexdigest()


def array_digest(arrays: Iterable[tuple[str, np.ndarray[Any, Any]]]) -> str:
    """Return a digest of named arrays: of their element types, shapes and values.

    >>> sliced = np.zeros((2, 2))[:, 1]
    >>> array_digest([("A", np.zeros(2))]) == array_digest([("A", sliced)])
    True
    """
    digest = sha256()
    for name, array in arrays:
        digest.update(f"{name}:{array.dtype}:{array.shape}".encode())
        digest.update(_elements(array))
    return digest.hexdigest()


def code_digest(*folders: str) -> str:
    """Return a digest of einalg's own code in some folders, without docstrings and comments.

    The sources are read once: later processes find the digest by the files' sizes and times.

    >>> code_digest("codegen") == code_digest("einalg/language")
    False
    """
    return text_digest(*map(_folder_digest, folders))


@cache
def _folder_digest(folder: str) -> str:
    files = sorted((SOURCE_ROOT / folder).rglob("*.py"))
    state = text_digest(*map(_file_state, files))
    key = text_digest("code", str(SOURCE_ROOT), folder)
    digest = _stored_digest(key, state)
    if digest is None:
        digest = text_digest(*map(_file_content, files))
        CODE_DIGESTS.replace(key, json.dumps({"state": state, "digest": digest}).encode())
    return digest


def forget_code() -> None:
    """Look at the sources again, which may have changed since this process started."""
    _folder_digest.cache_clear()


def without_prose(source: str) -> str:
    """Return a Python source, formatted as einalg's own, without its docstrings and comments.

    >>> without_prose("n = 3  # rounds\\n# of each\\nm = 4\\n")
    'n = 3\\nm = 4\\n'
    """
    code, *rest = source.split(_QUOTES)
    parts = [_without_comments(code)]
    for text, code in zip(rest[::2], rest[1::2]):
        before, after = parts[-1], _without_comments(code)
        head = before.rstrip("rR").rstrip(" ")
        if after.startswith("\n") and (head.endswith(":\n") or (len(parts) == 1 and not head)):
            parts[-1] = head
            parts.append(after.lstrip("\n"))
        else:
            parts += [_QUOTES, text, _QUOTES, after]
    return "".join(parts)


def _without_comments(code: str) -> str:
    """Return code that has no multi-line string without its comments, and lines of only these."""
    if "#" not in code:
        return code
    lines: list[str] = []
    for line in code.split("\n"):
        if "#" not in line:
            lines.append(line)
        elif before := _before_comment(line):
            lines.append(before)
    return "\n".join(lines)


def _before_comment(line: str) -> str:
    """Return what stands before the comment of a line; all of it where it has none.

    >>> _before_comment("name = '#'  # as in C")
    "name = '#'"
    """
    match = _BEFORE_COMMENT.match(line)
    if match is None or match.end() == len(line):
        return line
    return match.group().rstrip()


def _file_state(file: Path) -> str:
    state = file.stat()
    return f"{file} {state.st_size} {state.st_mtime_ns}"


def _file_content(file: Path) -> str:
    """Return the place of a source file, and what Python runs of it."""
    return f"{file.relative_to(SOURCE_ROOT)}\0{without_prose(file.read_text(encoding='utf-8'))}"


def _stored_digest(key: str, state: str) -> str | None:
    """Return the digest that was stored for files in just this state."""
    try:
        entry = json.loads(CODE_DIGESTS.read(key) or b"{}")
        return str(entry["digest"]) if entry["state"] == state else None
    except (ValueError, TypeError, KeyError):
        return None


def _elements(array: np.ndarray[Any, Any]) -> Any:
    """Return the values of an array as bytes; NumPy gives no buffer of text and objects."""
    if array.dtype.kind in "biufc":
        return np.ascontiguousarray(array).data
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    return array.tobytes()
