"""Names of exported functions."""

from __future__ import annotations

import keyword
from pathlib import Path

import pytest

from codegen.export.identifiers import FUNCTION_NAME, default_name, file_names, is_function_name
from einalg.errors import UseError

REFUSED = (
    "",
    "2d",
    "my kernel",
    "a-b",
    "_hidden",
    "größe",
    "int",
    "class",
    "restrict",
    "main",
    "expf",
    "fmax",
    "lroundl",
    "malloc",
    "NULL",
    "max_f32",
    "f32x16",
    "ipow3_f64",
    "workspace",
    "math",
    "Main",
    "main_data",
    "cuda_bf16",
    "kernel_0",
)


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_c_or_cpp_does_not_allow_are_refused(name: str) -> None:
    with pytest.raises(UseError, match="name must be a C identifier") as raised:
        FUNCTION_NAME.check("name", name)
    assert "e.g. name='my_kernel'" in str(raised.value)


@pytest.mark.parametrize("name", ["conv", "Conv2d", "layer_1_f32", "lambda_", "a"])
def test_other_names_are_allowed(name: str) -> None:
    assert FUNCTION_NAME.check("name", name) == name


@pytest.mark.parametrize(
    "folder", ["conv", "my-conv", "3x3", "exp", "größe", "int", "stdio", *keyword.kwlist]
)
def test_the_folder_names_the_function(folder: str) -> None:
    assert is_function_name(default_name(Path("out") / folder))


def test_no_two_buffers_have_one_identifier() -> None:
    names = file_names("conv")
    tensors = ("A", "conv", "new", "memory", "α", "u3b1", "printf")
    identifiers = [names("input", tensor) for tensor in tensors]
    identifiers += [names("output", tensor) for tensor in tensors]
    assert len({"conv", *identifiers}) == 1 + 2 * len(tensors)
    assert all(name.isascii() and name.isidentifier() for name in identifiers)
    assert not {"new", "memory", "printf", "conv"} & set(identifiers)
