"""How many random examples a property is tried on, and transcripts that are compared as text.

`ci` is the profile by default, `nightly` that of `make nightly`. `pytest --update-golden` writes
the transcripts anew, to be
reviewed as a diff.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.kernels import compile_quickly, is_as_usual
from tests.helpers.measurements import shorten_measurements
from tests.helpers.searches import shorten_layer_searches

# The threads of torch wait asleep: each worker has as many as there are cores, and where they look
# around for work they take the time of the other workers. OpenMP reads this when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
GOLDEN = Path(__file__).parent / "golden"
CODEGEN = Path(__file__).parent / "codegen"
PROGRAMS = tuple(CODEGEN / name for name in ("libraries", "program", "runtime"))  # of any kernels

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly",
    deadline=None,
    max_examples=2000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules are imported: there is none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector what is imported, and let it run less often: a worker makes
    millions of small expressions, which are freed without it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Leave what is alive alone: pytest looks for garbage several times when it ends, each time
    through all that was imported.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def short_work() -> Iterator[None]:
    """Searches of layers end by themselves, soon and on any machine at the same state, and what is
    measured runs a few times only.
    """
    with pytest.MonkeyPatch.context() as patches:
        shorten_layer_searches(patches)
        shorten_measurements(patches)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Most modules have kernels compiled quickly: they ask for values. Tests of code generation
    say for themselves how theirs are compiled.
    """
    with pytest.MonkeyPatch.context() as patches:
        if not is_about_code(request.path) and not is_as_usual(request.node.nodeid):
            compile_quickly(patches)
        yield


def is_about_code(path: Path) -> bool:
    """Tell whether a test is about the code of kernels, and not about what runs them."""
    return CODEGEN in path.parents and not any(folder in path.parents for folder in PROGRAMS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/golden anew instead of comparing with it",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` fails where tests/golden/name holds other text."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n")
        assert path.is_file(), f"no transcript {name}: write it with pytest --update-golden"
        assert text.rstrip("\n") + "\n" == path.read_text(), (
            f"{name} differs; where that is meant: pytest --update-golden"
        )

    return compare
