"""C files of kernels: each is printed once, whatever files it is in."""

from __future__ import annotations

import gc

import einalg as ea
from codegen.lowering.lower import lower
from codegen.targets.c import source_file
from codegen.targets.c.source_file import c_source, own_sources

MANY = 300  # kernels, as a network of a hundred layers has


def functions(count):
    return [lower("O", ea.parse(f"O[i] = A[i] + {k}", A=(4,))) for k in range(count)]


def test_each_of_many_kernels_is_printed_once(monkeypatch):
    printed = []

    class Counted(source_file.Printer):
        def __init__(self, function):
            printed.append(function)
            super().__init__(function)

    monkeypatch.setattr(source_file, "Printer", Counted)
    many = functions(MANY)
    sources = own_sources(many)
    assert own_sources(many) == sources and len(set(sources)) == MANY
    file = c_source(many)
    assert all(f"kernel_{k}(" in file for k in range(MANY))
    assert len(printed) == MANY


def test_a_printer_lives_as_long_as_its_kernel():
    (kernel,) = functions(1)
    own_sources([kernel])
    key = id(kernel)
    assert source_file._PRINTERS.get(key) is not None
    del kernel
    gc.collect()
    assert source_file._PRINTERS.get(key) is None
