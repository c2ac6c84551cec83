"""Equal programs that a search found, and their list as a person reads it (design §8, §12)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from derive.cost.backend import Backend, Runnable
from derive.cost.model import constant_outputs
from derive.rewriting.moves import Move
from einalg.boundary import public
from einalg.errors import CodegenError, DeviceError, EinalgError, MatchError
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Tensor
from einalg.language.ops.templates import EVERY
from einalg.options import PATH, Kind, accepting, checked, instance_of, optional, text, whole
from einalg.runtime.clock import Clock, OutOfTime
from einalg.runtime.measurement import Comparison, Measurement
from einalg.text.tables import Listing, aligned
from einalg.text.terminal import fitted
from einalg.text.wording import counted, milliseconds

log = logging.getLogger("einalg")

GENERATED = "eop"
HEADS = ("", "ms", "how", "verdict", "moves", "kernels")
ARRAYS_BY_NAME = instance_of(Mapping, "arrays by the names of inputs", "e.g. {name}={{'K': array}}")
MAX_SOURCE_SECONDS = 2.0  # of compiling a candidate in order to show its source
MOST_ROWS = 12  # that a text or a table shows


RIVAL = Kind(
    "a candidate",
    accepting(lambda value: isinstance(value, Candidate)),
    "e.g. {name}=d.candidates[1]",
)


@public
@dataclass
class Candidate:
    """One equal program: its kernels, the moves that lead to it, what it costs in seconds, and the
    verdict on its equality.

    `cost` is the shortest of the measured times where it is `measured`, with all that was measured
    in `measurement`, else the estimate; `error` the largest deviation from the reference, relative
    to its largest element; fills of masks, which are larger, are no measure for the others.
    `expression` is what it is equal to; its program may read fewer inputs than that.
    """

    program: Program
    kernels: tuple[Kernel, ...]
    moves: tuple[Move, ...]
    cost: float
    verdict: str
    measured: bool = False
    error: float | None = None
    backend: Backend | None = field(default=None, repr=False)
    measurement: Measurement | None = None
    expression: Program | None = field(default=None, repr=False)

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """The inputs of a call, whatever the program reads of them: those of the expression."""
        if self.expression is None:
            return self.program.inputs
        return self.expression.inputs

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that run it, kernel by kernel; `"eop"` is generated code."""
        return tuple(kernel.op for kernel in self.kernels)

    @checked(target=optional(text("cpu", DeviceError)))
    def compile(self, target: str | None = None) -> Runnable:
        """Return a callable `run(**arrays)` for a target, by default the derivation's.

        It is given the inputs of the expression, and ignores those that its program does not read;
        these may be left out. Raises `CodegenError` or `DeviceError` where there is none.
        """
        run = self._require_backend().compile(self.program, self.kernels, target)
        return run.accepting(self.inputs)

    def _require_backend(self) -> Backend:
        if self.backend is None:
            raise CodegenError(
                "this candidate has no backend to compile it\n  load it with einalg.Derivation.load"
            )
        return self.backend

    @checked(folder=PATH, weights=optional(ARRAYS_BY_NAME))
    def export_c(
        self, folder: Any, name: str | None = None, weights: Mapping[str, Any] | None = None
    ) -> Path:
        """Write the program as a C project into a folder, and return the folder.

        It holds a C file and a header with one function, a `main.c` that checks it on stored arrays
        and times it, a `Makefile` and a `CMakeLists.txt`; the header says how buffers lie. For a
        derivation whose target is `"cuda"` the files are CUDA's, and the function starts kernels.
        `name` is that of the function, by default that of the folder. Its arguments are the inputs
        and outputs in the order of the expression, whatever the program reads of them. Inputs in
        `weights` are not: their values are inside, with what depends on them alone. All kernels are
        generated code, whatever library is faster here.

        Raises `UseError` for a name that C does not allow, `RecordError` where the folder holds
        anything that no export has written, `ShapeError` for weights that do not fit, and
        `CodegenError` where there is no C compiler.

        >>> import tempfile
        >>> import einalg as ea
        >>> d = ea.derive(ea.parse("O[i] += A[i,j]", A=(2, 3)), measure=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     project = d.best.export_c(f"{folder}/row_sums")
        ...     sorted(file.name for file in project.glob("[!.]*"))
        ['CMakeLists.txt', 'Makefile', 'main.c', 'row_sums.c', 'row_sums.h']
        """
        backend = self._require_backend()
        return backend.export_c(self.program, self.kernels, self.inputs, folder, name, weights)

    @checked(language=text("c", CodegenError))
    def source(self, language: str = "c") -> str:
        """Return the generated source of the kernels that no library has."""
        target = "cuda" if language == "cuda" else "cpu"
        return self.compile(target).source(language)

    def kernels_with_source(self) -> tuple[Kernel, ...]:
        """Return the kernels, those that are generated with their source where it is at hand: where
        the candidate was measured, and is compiled anew in a moment.
        """
        if not self.measured or self.backend is None:
            return self.kernels
        try:
            with Clock.of(MAX_SOURCE_SECONDS).limiting():
                return self.compile().kernels
        except (EinalgError, OutOfTime) as error:
            log.info("einalg: the source of a candidate is not shown: %s", error)
            return self.kernels

    @checked(rival=RIVAL)
    def compared(self, rival: Candidate) -> Comparison | None:
        """Return how many times as fast it is as another one; None where one was not measured."""
        if self.measurement is None or rival.measurement is None:
            return None
        return Comparison(self.measurement, rival.measurement)

    @property
    def cost_kind(self) -> str:
        """Where its cost is from."""
        return "measured" if self.measured else "estimated"

    def __str__(self) -> str:
        parts = [f"{milliseconds(self.cost)} {self.cost_kind}", self.verdict]
        if self.error is not None:
            parts.append(f"error {self.error:.1e}")
        parts.append(counted(len(self.moves), "move"))
        return fitted("\n".join([", ".join(parts), *format_kernels(self.kernels)]))

    __repr__ = __str__


def format_kernels(kernels: Sequence[Kernel]) -> list[str]:
    """Return a line for each kernel, with those marked that run once, when weights are bound."""
    once = constant_outputs(kernels)
    lines = []
    for kernel in kernels:
        mark = "  once, from weights" if kernel.output in once else ""
        lines.append(f"  {kernel}{mark}")
    return lines


def summarize_operators(operators: Sequence[str]) -> str:
    """Return operators in a row, with those counted that follow each other.

    >>> summarize_operators(["eop", "eop", "matmul", "eop"])
    '2 eop, matmul, eop'
    """
    parts = []
    for name, run in groupby(operators):
        count = len(list(run))
        parts.append(name if count == 1 else f"{count} {name}")
    return ", ".join(parts)


@public
class Candidates(Listing[Candidate]):
    """Candidates, cheapest first: a list that shows one line for each, and a table in Jupyter.

    >>> import einalg as ea
    >>> expr = ea.parse("O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]", A=(8, 16), K=(3, 8))
    >>> d = ea.derive(expr, measure=False)
    >>> d.candidates.using("matmul")[0].operators
    ('matmul', 'eop')
    """

    heads = HEADS

    @checked(operators=text("matmul"))
    def using(self, *operators: str) -> Candidates:
        """Return those that run on all of these operators, whatever else they run on.

        `"eop"` is generated code. Raises `MatchError` for a name that no operator has.
        """
        wanted = set(operators)
        own = {operator for candidate in self for operator in candidate.operators}
        known = {GENERATED, *own, *(template.name for template in EVERY)}
        for name in operators:
            if name not in known:
                near = get_close_matches(name, sorted(known)) or sorted(own)
                raise MatchError(f"there is no operator {name!r}\n  name one of: {', '.join(near)}")
        return Candidates(c for c in self if wanted.issubset(c.operators))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells of `HEADS` for every candidate."""
        for number, c in enumerate(self):
            yield (
                str(number),
                f"{c.cost * 1e3:.3f}",
                c.cost_kind,
                c.verdict,
                str(len(c.moves)),
                summarize_operators(c.operators),
            )

    def __str__(self) -> str:
        if not self:
            return "no candidate"
        table = aligned([HEADS, *islice(self.rows(), MOST_ROWS)], str.rjust)
        return fitted("\n".join([table, *self.remarks()]))

    @checked(shown=whole())
    def remarks(self, shown: int = MOST_ROWS) -> list[str]:
        """Return what a reader of the first rows should know.

        That is how many more there are, and why the order is not that of the times.
        """
        remarks = []
        if len(self) > shown:
            remarks.append(f"and {len(self) - shown} more")
        if len({candidate.measured for candidate in self[:shown]}) == 2:
            remarks.append(
                "those that were measured come first; an estimate says only which ones to measure"
            )
        return remarks
