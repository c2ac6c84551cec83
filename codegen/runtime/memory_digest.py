"""Digests of memory, by which a write to any byte of it is noticed.

Comparing memory with a copy of it reads twice as many bytes, and holds the copy. Here each piece
has a digest of 128 bytes, made by sums and products of its words in turns. Words and rows that
change their places change it too. One changed word always does; of other changes, one in some 2^64
might not, for a key that each process draws at random.
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import Any

from codegen.runtime.foreign_call import call_function
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, find_compiler
from codegen.targets.c.thread_pool import REGIONS, attached

Span = tuple[int, int]  # an address, and a number of bytes
PIECE_BYTES = 1 << 17  # of which each thread takes the next one
MIN_PARALLEL_PIECES = 8  # fewer are read by the calling thread before another one would begin
STATE_WORDS = 16
KEY_WORDS = 32
LANES, STRIPES = 8, 16  # words that are taken at once, and how often until all is mixed
SOURCE = f"""\
#include <stdint.h>
#include <string.h>
enum {{ LANES = {LANES}, STRIPES = {STRIPES}, BLOCK = 8 * LANES * STRIPES }};
struct piece {{ const char *at; long bytes; uint64_t sum[LANES], product[LANES]; }};
typedef uint64_t words __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
static words mixed(words sum, words key) {{ return ((sum ^ sum >> 47) ^ key) * 0x9E3779B1u; }}
static void absorb(words *sum, words *product, const char *at, const uint64_t *key) {{
  words first = *sum, second = *product;
#pragma GCC unroll {STRIPES}
  for (int s = 0; s < STRIPES; ++s) {{
    const words read = *(const words *)(at + 8 * LANES * s);
    const words masked = read ^ *(const words *)(key + s);
    first += read;
    second += (masked & 0xffffffffu) * (masked >> 32);
  }}
  *sum = mixed(first, *(const words *)(key + STRIPES));
  *product = mixed(second, *(const words *)(key + STRIPES));
}}
static void digest(const struct piece *piece, const uint64_t *key, struct piece *result) {{
  words sum = *(const words *)key + (uint64_t)piece->bytes, product = sum;
  long at = 0;
  for (; at + BLOCK <= piece->bytes; at += BLOCK) absorb(&sum, &product, piece->at + at, key);
  if (at < piece->bytes) {{
    char last[BLOCK] = {{0}};
    memcpy(last, piece->at + at, piece->bytes - at);
    absorb(&sum, &product, last, key);
  }}
  memcpy(result->sum, &sum, sizeof sum);
  memcpy(result->product, &product, sizeof product);
}}
static int is_same(const struct piece *piece, const uint64_t *key) {{
  struct piece now;
  digest(piece, key, &now);
  return !memcmp(now.sum, piece->sum, sizeof now.sum + sizeof now.product);
}}
void fill(long count, struct piece *pieces, const uint64_t *key) {{
  for (long k = 0; k < count; ++k) digest(pieces + k, key, pieces + k);
}}
void compare(long count, const struct piece *pieces, const uint64_t *key, long *changed) {{
  long others = 0;
  if (count < {MIN_PARALLEL_PIECES}) {{
    for (long k = 0; k < count && !others; ++k) others += !is_same(pieces + k, key);
  }} else {{
    long next = 0;
#pragma omp parallel for schedule(static)
    for (long lane = 0; lane < 64; ++lane)
      for (long k; (k = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < count;)
        if (!is_same(pieces + k, key)) {{
          __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
          __atomic_store_n(&next, count, __ATOMIC_RELAXED);
        }}
  }}
  *changed = others;
}}
"""


class _Piece(ctypes.Structure):
    _fields_ = [
        ("at", ctypes.c_void_p),
        ("bytes", ctypes.c_long),
        ("state", ctypes.c_uint64 * STATE_WORDS),
    ]


@dataclass(frozen=True)
class MemoryDigest:
    """The digests of some memory as it was: of `spans`, each an address and a number of bytes.

    Whoever makes one keeps the memory alive as long as it is compared. `states` are the digests, as
    the C code or what takes its place without a compiler has them.

    >>> import numpy as np
    >>> array = np.arange(6.0)
    >>> digest = MemoryDigest.of([(array.ctypes.data, array.nbytes)])
    >>> digest.is_unchanged()
    True
    >>> array[4] = 0
    >>> digest.is_unchanged()
    False
    """

    spans: tuple[Span, ...]
    states: Any

    @classmethod
    def of(cls, spans: Sequence[Span]) -> MemoryDigest:
        """Return the digests of memory as it is now; slower ones where there is no C compiler."""
        library = _library()
        if library is None:
            return cls(tuple(spans), b"".join(map(_slow_digest, spans)))
        pieces = _pieces(spans)
        call_function(library.fill, ctypes.c_long(len(pieces)), ctypes.byref(pieces), _key())
        return cls(tuple(spans), pieces)

    @classmethod
    def together(cls, parts: Sequence[MemoryDigest]) -> MemoryDigest:
        """Return several as one, without looking at the memory."""
        spans = tuple(chain.from_iterable(part.spans for part in parts))
        states = [part.states for part in parts]
        if _library() is None:
            return cls(spans, b"".join(states))
        pieces = list(chain.from_iterable(states))
        return cls(spans, (_Piece * len(pieces))(*pieces))

    def is_unchanged(self) -> bool:
        """Tell whether all bytes are what they were."""
        if not self.spans:
            return True
        library = _library()
        if library is None:
            return b"".join(map(_slow_digest, self.spans)) == self.states
        changed = ctypes.c_long()
        count, pieces = ctypes.c_long(len(self.states)), ctypes.byref(self.states)
        call_function(library.compare, count, pieces, _key(), ctypes.byref(changed))
        return not changed.value


def _pieces(spans: Sequence[Span]) -> Any:
    """Return memory cut into pieces, for C."""
    places: list[Span] = []
    for start, size in spans:
        for at in range(0, size, PIECE_BYTES):
            places.append((start + at, min(PIECE_BYTES, size - at)))
    pieces = (_Piece * len(places))()
    for piece, (at, size) in zip(pieces, places):
        piece.at, piece.bytes = at, size
    return pieces


def _slow_digest(span: Span) -> bytes:
    start, size = span
    return blake2b((ctypes.c_char * size).from_address(start)).digest()


@cache
def _key() -> Any:
    """Return random words, the same as long as the process lives."""
    return (ctypes.c_uint64 * KEY_WORDS).from_buffer_copy(secrets.token_bytes(8 * KEY_WORDS))


@cache
def _library() -> ctypes.CDLL | None:
    compiler = find_compiler()
    if compiler is None:
        return None
    library = compiler.load(REGIONS + SOURCE, COMPILE_TIMEOUT_SECONDS)
    return attached(compiler, library, COMPILE_TIMEOUT_SECONDS)
