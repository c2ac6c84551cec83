"""Networks as C functions that Python calls: memory is looked up, kernels run, and results are made
without a line of Python (design §10).

A call of a small network takes a microsecond or two, and what Python does around it took five times
as long. The function is a builtin one, of the
C API's stable part, whose addresses it is given: no header of Python is needed to compile it, and
no library to link. Tensors tell their memory by
DLPack's C functions, arrays by the layout that NumPy has kept since its first version, which is
tried before it is relied on.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_int, c_int32, c_int64, c_long, c_uint8, c_void_p
from functools import cache
from typing import Any

import numpy as np

from codegen.runtime.call_frame import CallFrame
from codegen.targets.c.compiler import COMPILE_TIMEOUT_SECONDS, find_compiler
from einalg.errors import CodegenError
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.tensor import Tensor
from einalg.runtime.direct_call import ObjectInterface

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # of DLPack, by NumPy's kind
API = (
    "PyTuple_GetItem",
    "PyLong_AsVoidPtr",
    "PyObject_Vectorcall",
    "PyObject_CallNoArgs",
    "PyObject_CallMethodObjArgs",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyErr_Clear",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "Py_DecRef",
)
MOST = 32  # inputs and outputs
SOURCE = """\
#include <stddef.h>
#include <stdint.h>
struct view { void *data; int32_t device, number, rank; uint8_t code, bits; uint16_t lanes;
    const int64_t *shape, *strides; uint64_t offset; };
struct array { void *data; int32_t rank; const intptr_t *shape, *strides; void *base, *dtype;
    int flags; }; /* behind the head of an object */
struct tensor { int32_t rank; uint8_t code, bits; const int64_t *shape; const void *dtype; };
struct place { void **where; int64_t offset; int32_t tensor; };
struct network {
  int32_t inputs, outputs, places, kernels, alone, busy;
  const void *types[2]; /* of the objects */
  int (*read)(void *, struct view *); /* where an object lies; nothing for arrays */
  void *refused; /* a method that says whether memory holds other values */
  const struct tensor *tensors;
  void *const *makers;
  const struct place *place;
  void (*sequence)(long, const void *, const void *);
  const void *functions, *blocks;
  void *prepare, *finish, *otherwise; /* the first for the first call only */
};
static struct {
  void *(*item)(void *, intptr_t), *(*pointer)(void *), *(*call)(void *, void *const *, size_t,
      void *), *(*make)(void *);
  void *(*method)(void *, void *, ...), *(*tuple)(intptr_t);
  int (*put)(void *, intptr_t, void *);
  void (*clear)(void), *(*release)(void), (*acquire)(void *), (*take)(void *), (*drop)(void *);
} py;
static const void *nothing_refused;
static intptr_t head;
static int forked;
void setup(const void *api, const void *no, intptr_t size) { __builtin_memcpy(&py, api,
    sizeof py), nothing_refused = no, head = size; }
void in_child(void) { forked = 1; }

static void *array_at(void *object, const struct tensor *t) {
  const struct array *a = (const struct array *)((char *)object + head);
  if (a->dtype != t->dtype || a->rank != t->rank || (a->flags & 0x101) != 0x101) return NULL;
      /* contiguous, aligned */
  for (int32_t k = 0; k < t->rank; ++k)
    if (a->shape[k] != t->shape[k]) return NULL;
  return a->data;
}

static void *tensor_at(const struct network *n, void *object, const struct tensor *t, int is_new) {
  struct view v;
  if (n->read(object, &v)) return py.clear(), NULL;
  if (v.device != 1 || v.rank != t->rank || v.code != t->code || v.bits != t->bits
      || v.lanes != 1) return NULL;
  int64_t step = 1;
  for (int32_t k = t->rank; k-- > 0; step *= t->shape[k])
    if (v.shape[k] != t->shape[k] || (v.strides && t->shape[k] != 1 && v.strides[k] != step))
        return NULL;
  if (((uintptr_t)v.data + v.offset) % (t->bits / 8)) return NULL;
  if (is_new) return (char *)v.data + v.offset;
  void *other = py.method(object, n->refused, NULL);
  if (!other) return py.clear(), NULL;
  py.drop(other);
  return other == nothing_refused ? (char *)v.data + v.offset : NULL;
}

static void *memory_of(const struct network *n, void *object, const struct tensor *t, int is_new) {
  const void *type = *(void **)((char *)object + head - sizeof(void *));
  if (type != n->types[0] && type != n->types[1]) return NULL;
  return n->read ? tensor_at(n, object, t, is_new) : array_at(object, t);
}

static void *other_way(const struct network *n, void *const *given, intptr_t count, void *names) {
  return py.call(n->otherwise, given, (size_t)count, names);
}

static void *run(void *self, void *const *given, intptr_t count, void *names) {
  struct network *n = py.pointer(py.item(self, 0));
  char *where[MOST];
  if (n->prepare) {
    void *done = py.make(n->prepare);
    if (!done) return NULL;
    py.drop(done);
  }
  if (names || forked || n->busy || count != n->inputs) return other_way(n, given, count, names);
  for (int32_t k = 0; k < n->inputs; ++k)
    if (!(where[k] = memory_of(n, given[k], &n->tensors[k], 0))) return other_way(n, given,
        count, names);
  void *results = py.tuple(n->outputs);
  if (!results) return NULL;
  for (int32_t k = 0; k < n->outputs; ++k) {
    void *made = py.make(n->makers[k]);
    if (!made) return py.drop(results), NULL;
    py.put(results, k, made);
    if (!(where[n->inputs + k] = memory_of(n, made, &n->tensors[n->inputs + k], 1)))
        return py.drop(results), other_way(n, given, count, names);
  }
  if (n->busy) return py.drop(results), other_way(n, given, count, names);
      /* what was called until here may have let other threads run */
  n->busy = 1;
  for (int32_t k = 0; k < n->places; ++k)
      *n->place[k].where = where[n->place[k].tensor] + n->place[k].offset;
  void *thread = py.release();
  n->sequence(n->kernels, n->functions, n->blocks);
  py.acquire(thread);
  n->busy = 0;
  if (!n->alone && !n->finish) return results;
  void *found = n->alone ? py.item(results, 0) : py.call(n->finish, &results, 1, NULL);
  if (n->alone) py.take(found);
  py.drop(results);
  return found;
}
struct { const char *name; void *function; int flags; const char *text; } method = {"network",
    run, 0x82, "A network on memory as it is."};
""".replace("MOST", str(MOST))


class _View(ctypes.Structure):
    _fields_ = [
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("shape", POINTER(c_int64)),
        ("dtype", c_void_p),
    ]


class _Place(ctypes.Structure):
    _fields_ = [("where", c_void_p), ("offset", c_int64), ("tensor", c_int32)]


class _Network(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("inputs", "outputs", "places", "kernels", "alone", "busy")),
        ("types", c_void_p * 2),
        *((name, c_void_p) for name in ("read", "refused")),
        ("tensors", POINTER(_View)),
        ("makers", POINTER(c_void_p)),
        ("place", POINTER(_Place)),
        *(
            (name, c_void_p)
            for name in ("sequence", "functions", "blocks", "prepare", "finish", "otherwise")
        ),
    ]

    def take(self, frame: CallFrame) -> Any:
        """Run the kernels of a frame, and write addresses where they read them; gives what must be
        kept meanwhile.
        """
        (native,) = frame.natives
        functions, blocks = native.tables
        written = [
            (block, place, offset, k)
            for k, places in enumerate(frame.places.values())
            for block, place, offset in places
        ]
        step = ctypes.sizeof(c_void_p)
        places = (_Place * len(written))(
            *(
                _Place(ctypes.addressof(block) + place * step, offset, k)
                for block, place, offset, k in written
            )
        )
        self.places, self.place, self.kernels = len(places), places, len(functions)
        self.sequence, self.functions, self.blocks = (
            ctypes.cast(native.sequence, c_void_p),
            ctypes.addressof(functions),
            ctypes.addressof(blocks),
        )
        return frame, places


class OnAddresses:
    """A program of compiled kernels as a function of addresses: of what `make` says that a frame is
    given, in order.
    """

    def __init__(self, make: Callable[[], CallFrame]):
        self._make, self._memory = make, threading.local()

    def __call__(self, addresses: Sequence[int]) -> None:
        frame = self._memory.__dict__.get("frame")
        if frame is None:
            frame = self._memory.frame = self._make()
        frame.run_at(addresses)

    def on_objects(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], objects: ObjectInterface
    ) -> Callable[..., Any] | None:
        """The same as a builtin function of objects that gives new ones; None where this machine
        has no such functions.

        While one thread is inside, others are given to `objects.otherwise`.
        """
        tensors = (*inputs, *outputs)
        library = _library()
        if (
            library is None
            or len(tensors) > MOST
            or not (objects.read or _arrays_are_known(library))
        ):
            return None
        return _function(library, self._make, len(inputs), tensors, objects)


def _function(
    library: ctypes.CDLL,
    make: Callable[[], CallFrame],
    inputs: int,
    tensors: Sequence[Tensor],
    objects: ObjectInterface,
) -> Callable[..., Any]:
    """The builtin function, which has `make` give a frame when it is first called."""
    network = _Network(inputs=inputs, outputs=len(tensors) - inputs)
    lock, waiting, taken = threading.Lock(), [make], list[Any]()

    def prepare() -> None:
        with lock:
            if waiting:
                taken.append(network.take(waiting[0]()))
                network.prepare = None
                waiting.clear()  # what is made of a program does not keep the program

    finish = None if objects.finish in (None, tuple) else objects.finish
    network.alone = objects.finish is None and network.outputs == 1
    network.types = (c_void_p * 2)(*map(id, (objects.types * 2)[:2]))
    network.read, network.refused = objects.read or None, id(objects.refused)
    network.tensors = (_View * len(tensors))(*map(_view, tensors))
    network.makers = (c_void_p * len(objects.makers))(*map(id, objects.makers))
    network.prepare, network.finish, network.otherwise = (
        id(prepare),
        finish and id(finish),
        id(objects.otherwise),
    )
    kept = ctypes.addressof(network), network, taken, prepare, tensors, objects, finish
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [c_void_p, ctypes.py_object, c_void_p]
    return new(ctypes.addressof(c_int.in_dll(library, "method")), kept, None)


def _view(tensor: Tensor) -> _View:
    dtype = numpy_dtype(tensor.dtype)
    return _View(
        len(tensor.shape),
        CODES[dtype.kind],
        8 * dtype.itemsize,
        (c_int64 * len(tensor.shape))(*tensor.shape),
        id(dtype),
    )


@cache
def _library() -> ctypes.CDLL | None:
    """The C code, loaded; None where there is no compiler, or where other threads run Python
    meanwhile.
    """
    compiler = find_compiler()
    if (
        compiler is None
        or sys.implementation.name != "cpython"
        or not getattr(sys, "_is_gil_enabled", lambda: True)()
    ):
        return None
    try:
        library = compiler.load(SOURCE, COMPILE_TIMEOUT_SECONDS)
        api = (c_void_p * len(API))(
            *(ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p).value for name in API)
        )
    except (CodegenError, AttributeError):
        return None
    library.setup.argtypes = [c_void_p, c_void_p, c_long]
    library.setup(ctypes.addressof(api), id(False), object.__basicsize__)
    if hasattr(
        os, "register_at_fork"
    ):  # a child has no threads of its parent's, which kernels would wait for
        os.register_at_fork(after_in_child=library.in_child)
    return library


@cache
def _arrays_are_known(library: ctypes.CDLL) -> bool:
    """Whether arrays lie in memory as the C code believes."""

    class Array(ctypes.Structure):
        _fields_ = [
            ("data", c_void_p),
            ("rank", c_int32),
            ("shape", POINTER(ctypes.c_ssize_t)),
            ("strides", POINTER(ctypes.c_ssize_t)),
            ("base", c_void_p),
            ("dtype", c_void_p),
            ("flags", c_int),
        ]

    def is_known(array: np.ndarray[Any, Any]) -> bool:
        seen = Array.from_address(id(array) + object.__basicsize__)
        told = (
            seen.data,
            seen.rank,
            seen.shape[: array.ndim],
            seen.dtype,
            bool(seen.flags & 0x001),
            bool(seen.flags & 0x100),
        )
        flags = array.flags
        return told == (
            array.ctypes.data,
            array.ndim,
            [*array.shape],
            id(array.dtype),
            flags.c_contiguous,
            flags.aligned,
        )

    square = np.arange(12.0).reshape(3, 4)
    odd = np.frombuffer(bytearray(33), np.uint8)[1:].view(np.float32)
    return all(map(is_known, (square, square.T, square[1:], odd, np.zeros((2, 0, 5), np.int8))))
