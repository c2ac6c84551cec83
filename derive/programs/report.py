"""The report of an optimization: each program and each layer before and after, as plain values and
as text (design §11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from derive.matching import kernels_of, with_operator_names
from derive.programs.forms.layers import SearchedLayer
from derive.programs.optimized_program import OptimizedProgram, spreading_layers
from derive.results.candidates import format_kernels
from derive.results.costs import Bar
from derive.rules.inter.lifting_nesting import lifted
from einalg.frontends.graph import OpaqueNode
from einalg.frontends.network import IN_FRAMEWORK
from einalg.language.ir.program import Program
from einalg.runtime.clock import phases_in_words
from einalg.runtime.measurement import Comparison, Measurement
from einalg.text.terminal import COLUMNS, wrapped
from einalg.text.wording import AS_WRITTEN, counted, in_bytes, milliseconds

MAX_BAR_CHARACTERS = 24
MAX_WEIGHT_NAMES = 4
MIN_SECONDS = 1e-12  # of what is divided by
SPREADS = "a NaN or an infinity reaches all that shares a transform tile with it, in {}"
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class LayerCost:
    """A layer before or after: the seconds of all its runs, their share of the program's time, and
    a line for each kernel.
    """

    when: str
    seconds: float
    share: float
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Replacement:
    """The result of a layer: its moves, its verdict and where it comes from.

    `origin` is "found before, kept on disk" or, say, "12 states searched". `program` is None where
    it is the same as before.
    """

    moves: int
    verdict: str
    origin: str
    program: Program | None

    @property
    def statements(self) -> list[str]:
        """The lines of the program."""
        if self.program is None:
            return []
        return str(self.program).splitlines()


@dataclass(frozen=True)
class LayerReport:
    """A layer: its program before, the names of its largest weights in one text, how often it runs
    in a call, its costs, and what it became.

    `costs` are those before and after; of one that stays as it is before only, of one that was not
    searched none. `seconds` are those of the whole, where time was over before it was searched.
    """

    name: str
    program: Program
    weights: str
    runs: int
    costs: tuple[LayerCost, ...]
    replacement: Replacement | None
    seconds: float | None = None

    @property
    def remark(self) -> str:
        """Why a layer without a replacement has none."""
        if self.costs:
            return "stays as it is: what was found for it is not faster in the whole"
        if self.seconds is None:
            reason = "its search failed, which a warning tells"
        elif self.seconds:
            reason = f"the {self.seconds:g} s were over before its turn; more go on from here"
        else:
            reason = "searches were given no time (seconds=0)"
        return f"stays as it is: it was not searched, for {reason}"

    def milliseconds(self, cost: LayerCost) -> str:
        """The time of a run, and how many runs there are: `2 × 4.000`."""
        each = f"{cost.seconds / self.runs * 1e3:.3f}"
        if self.runs == 1:
            return each
        return f"{self.runs} × {each}"


@dataclass(frozen=True)
class ProgramReport:
    """A program: its times in one line, what is known of its values, a bar before and after, its
    layers, and what time was over before.
    """

    title: str
    proof: str
    bars: tuple[Bar, ...]
    layers: tuple[LayerReport, ...]
    early_end: str = ""


class Report:
    """The report on a network: `str` gives text, Jupyter shows bars and tables.

    The share of a layer is that of all its runs, each layer by itself, in the time of its program.
    """

    def __init__(
        self,
        parts: Sequence[OptimizedProgram],
        opaque: Sequence[OpaqueNode],
        seconds: float,
        times: tuple[Measurement, Measurement] | None,
        notes: Sequence[str] = (),
        phases: Mapping[str, float] | None = None,
        framework_place: str = IN_FRAMEWORK,
    ):
        self.opaque, self._notes, self._phases = opaque, tuple(notes), dict(phases or {})
        self._parts, self._seconds, self._times = parts, seconds, times
        self._place = framework_place

    @property
    def head(self) -> str:
        """How many programs and opaque calls there are, and how long the phases took."""
        programs = counted(len(self._parts), "program")
        calls = counted(len(self.opaque), "opaque call")
        head = f"{programs}, {calls}; optimized in {self._seconds:.1f} s"
        if not self._phases:
            return head
        return f"{head}: {phases_in_words(self._phases)}"

    @property
    def calls(self) -> list[Bar]:
        """A call of the whole in its framework and optimized; none where no framework runs it."""
        if self._times is None:
            return []
        bars = []
        for where, measured in zip((self._place, "optimized"), self._times):
            seconds = measured.seconds
            bars.append(Bar(f"a call, {where}", seconds, True, (("the whole call", seconds),)))
        return bars

    @property
    def call(self) -> str:
        """A call of the whole in its framework and optimized, in words; empty where no framework
        runs it.
        """
        if self._times is None:
            return ""
        before, after = self._times
        text = f"a call: {milliseconds(before.seconds)} {self._place}, "
        text += f"{milliseconds(after.seconds)} optimized, "
        return text + Comparison(after, before).text("the speed of the framework")

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """On what the network was compared with its framework, and how far a NaN may reach."""
        layers = [name for part in self._parts for name in spreading_layers(part.layers)]
        if not layers:
            return self._notes
        return (*self._notes, SPREADS.format(", ".join(layers)))

    @cached_property
    def programs(self) -> list[ProgramReport]:
        """Every program in the order in which they run."""
        return [_program(number, part) for number, part in enumerate(self._parts, 1)]

    @property
    def text(self) -> str:
        """The report as text whose lines are as long as they are: for a pipe or a file."""
        return "\n".join(self._lines())

    def __str__(self) -> str:
        return "\n".join(wrapped(line, COLUMNS) for line in self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        yield self.head
        if self._times is not None:
            yield self.call
        yield from self.notes
        for program in self.programs:
            yield ""
            yield from _program_lines(program)
        if self.opaque:
            yield ""
            yield "opaque, run by the framework:"
            for node in self.opaque:
                yield f"  {node.operator}: {node.why}"


def _program(number: int, part: OptimizedProgram) -> ProgramReport:
    before, after = part.seconds
    title = f"program {number}: not measured"
    if part.comparison is not None:
        title = f"program {number}: {milliseconds(before)} → {milliseconds(after)}"
        title += f", {part.comparison.text(f'the speed {AS_WRITTEN}')}"
    error, workspace = f"largest error {part.error:.1e}", in_bytes(part.workspace)
    proof = ", ".join([part.verdict, error, *part.changes, f"{workspace} between kernels"])
    bars = (_bar(BEFORE, 0, part), _bar(AFTER, 1, part))
    layers = tuple(_layer(layer, part, bars) for layer in part.layers)
    return ProgramReport(title, proof, bars, layers, str(part.early_end or ""))


def _bar(title: str, position: int, part: OptimizedProgram) -> Bar:
    """The program with a part for every layer, of no length for one that was not searched."""
    parts = []
    for layer in part.layers:
        seconds = _seconds(layer, part) or [0.0]
        parts.append((layer.names[0], seconds[min(position, len(seconds) - 1)]))
    return Bar(title, part.seconds[position], True, tuple(parts))


def _runs(layer: SearchedLayer, part: OptimizedProgram) -> int:
    """How often a layer is computed in a call: for each of its statements, and for each slice."""
    slices = part.slices.count if part.slices else 1
    return len(layer.names) * slices


def _seconds(layer: SearchedLayer, part: OptimizedProgram) -> list[float]:
    """The seconds of all runs, before and after; of a layer that stays as it is before only, if at
    all.
    """
    if layer.original is None:
        return []
    runs = _runs(layer, part)
    if layer.candidate is None:
        return [runs * layer.original]
    return [runs * layer.original, runs * layer.candidate.cost]


def _layer(layer: SearchedLayer, part: OptimizedProgram, bars: Sequence[Bar]) -> LayerReport:
    costs = []
    for bar, seconds, kernels in zip(bars, _seconds(layer, part), _kernels(layer)):
        whole = max(bar.seconds, bar.together, MIN_SECONDS)
        costs.append(LayerCost(bar.title, seconds, seconds / whole, tuple(kernels)))
    names = layer.weights[:MAX_WEIGHT_NAMES]
    if len(layer.weights) > MAX_WEIGHT_NAMES:
        names = [*names, "…"]
    return LayerReport(
        layer.names[0],
        layer.program,
        ", ".join(names),
        _runs(layer, part),
        tuple(costs),
        _replacement(layer),
        layer.timed_out_after,
    )


def _kernels(layer: SearchedLayer) -> tuple[list[str], list[str]]:
    """Return the kernels before and after, a line each.

    Those before are left out where they are the same.
    """
    before: list[str] = []
    if layer.original is not None:
        before = format_kernels(with_operator_names(kernels_of(lifted(layer.program))))
    if layer.candidate is None:
        return before, []
    after = format_kernels(layer.candidate.kernels)
    return [] if before == after else before, after


def _replacement(layer: SearchedLayer) -> Replacement | None:
    candidate = layer.candidate
    if candidate is None or layer.original is None:
        return None
    verdict = candidate.verdict
    if candidate.error is not None:
        verdict += f", error {candidate.error:.1e}"
    origin = f"{counted(layer.states, 'state')} searched"
    if layer.stored:
        origin = "found before, kept on disk"
    if layer.is_adapted:
        origin = "derived for a similar layer"
        if not candidate.measured:
            origin += ", times estimated"
    program = candidate.program
    if str(program) == str(layer.program):
        program = None
    return Replacement(len(candidate.moves), verdict, origin, program)


def _program_lines(program: ProgramReport) -> Iterator[str]:
    yield program.title
    yield f"  {program.proof}"
    if program.early_end:
        yield f"  {program.early_end}"
    costs = [cost.seconds for layer in program.layers for cost in layer.costs]
    longest = max(costs, default=0.0)
    for layer in program.layers:
        for line in _layer_lines(layer, longest):
            yield f"  {line}"


def _layer_lines(layer: LayerReport, longest: float) -> Iterator[str]:
    notes = ["once" if layer.runs == 1 else f"{layer.runs} times"]
    if layer.weights:
        notes.append(f"with {layer.weights}")
    yield f"{layer.name} ({', '.join(notes)}): {layer.program}"
    for cost in layer.costs:
        length = round(MAX_BAR_CHARACTERS * cost.seconds / longest) if longest else 0
        time = f"{layer.milliseconds(cost):>12} ms"
        yield f"  {cost.when:6} {time}  {cost.share:4.0%}  {'█' * length}".rstrip()
        for kernel in cost.kernels:
            yield f"  {kernel}"
    replacement = layer.replacement
    if replacement is None:
        yield f"  {layer.remark}"
        return
    notes = [f"{counted(replacement.moves, 'move')}, {replacement.verdict}", replacement.origin]
    if replacement.statements:
        notes.append("it became")
    yield f"  {'; '.join(notes)}"
    for statement in replacement.statements:
        yield f"    {statement}"
