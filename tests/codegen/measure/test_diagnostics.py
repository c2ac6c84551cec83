"""What `codegen.measure.diagnostics` says of a machine with everything, and of one with nothing."""

from __future__ import annotations

import pytest

from codegen.measure import diagnostics
from codegen.measure.diagnostics import Capability, facts
from einalg.errors import CodegenError, DeviceError
from tests.helpers.fake_device import FakeDevice


def test_everything_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "find_driver", FakeDevice)
    found = {fact.name: fact for fact in facts()}
    assert found["CUDA device"] == Capability("CUDA device", True, "a fake device, sm_80")
    assert found["BLAS"].found and any(digit in found["BLAS"].detail for digit in "0123456789")
    assert found["C compiler"].found and str(found["C compiler"]).startswith("ok ")


def test_nothing_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missing thing names a remedy, on one line."""

    def no_device() -> None:
        raise DeviceError("there is no CUDA device here\n  use target='cpu'")

    def no_compiler() -> None:
        raise CodegenError("no C++ compiler works here")

    monkeypatch.setattr(diagnostics, "find_compiler", lambda: None)
    monkeypatch.setattr(diagnostics, "find_nvcc", lambda: None)
    monkeypatch.setattr(diagnostics, "find_driver", no_device)
    monkeypatch.setattr(diagnostics, "cpp_compiler", no_compiler)
    monkeypatch.setattr(diagnostics, "find_spec", lambda name: None)
    found = facts()
    assert {fact.name for fact in found if fact.found} == {"BLAS", "cache"}
    for fact in found:
        if fact.found:
            continue
        assert str(fact).startswith("missing") and "\n" not in str(fact)
        assert any(word in fact.detail for word in ("install", "use")), fact


def test_remedies_are_commands_of_the_package_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    for manager, command in (
        ("apt-get", "sudo apt-get install gcc"),
        ("dnf", "sudo dnf install gcc"),
        ("", "install gcc or clang"),
    ):
        monkeypatch.setattr(
            diagnostics.shutil,
            "which",
            lambda name, manager=manager: f"/usr/bin/{name}" if name == manager else None,
        )
        assert diagnostics.remedy("gcc") == command
    assert diagnostics.remedy("nvcc").startswith("install the CUDA toolkit")


def test_facts_are_shown_one_a_line() -> None:
    found = facts()
    assert str(found).splitlines() == [str(fact) for fact in found] and repr(found) == str(found)
