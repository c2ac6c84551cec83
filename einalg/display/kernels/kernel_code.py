"""Kernels as HTML: the expression of each beside the source that was generated for it.

What is pointed at, or reached by the keyboard, in one of them is marked in both; style sheets do
that, without a script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from derive.cost.work import Work
from einalg.display.cost_bars import mark
from einalg.display.html import folded
from einalg.display.kernels.source_code import source_html
from einalg.display.mathml import NUMBER, formula
from einalg.language.ir.body import Reduce
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import reductions
from einalg.text.wording import BINARY, DECIMAL, Unit, counted, significant

MAX_NAMES = 24  # of a kernel, that are found in both
MAX_OPEN_LINES = 40  # of a source that is not folded


@dataclass(frozen=True)
class KernelFigures:
    """A kernel with its source in a language, its work in a call, and its time in words.

    `part` is its number in a bar of costs; None where it has none.
    """

    kernel: Kernel
    work: Work
    time: str
    language: str = "c"
    part: int | None = None


def kernels_html(figures: Sequence[KernelFigures]) -> str:
    """Return kernels below each other, with the style by which names are found."""
    blocks = "".join(map(_kernel, figures))
    return f"<style>{linking_style()}</style>{blocks}"


def linking_style() -> str:
    """Return the rules that mark a name everywhere in its kernel while it is pointed at or has the
    focus.
    """
    rules = []
    for number in range(MAX_NAMES):
        name = f'[{NUMBER}="{number}"]'
        rules.append(f".einalg-kernel:has({name}:is(:hover,:focus)) {name}")
    marked = "{background:var(--ea-mark);border-radius:2px}"
    return "".join(f"{rule}{marked}" for rule in rules)


def _kernel(figures: KernelFigures) -> str:
    kernel = figures.kernel
    square = "" if figures.part is None else mark(figures.part)
    facts = f"<small>{escape(_facts(figures))}</small>"
    head = f"<header>{square}<code>{escape(str(kernel))}</code> {facts}</header>"
    names = numbered_names(kernel)
    parts = []
    if kernel.scope is not None:
        statement = formula([(kernel.output, kernel.scope)], names)
        parts.append(f"<div>{statement}{_chips(kernel, kernel.scope, names)}</div>")
    if kernel.source is not None:
        parts.append(f"<div>{_source(kernel.source, figures.language, names)}</div>")
    content = "".join(parts)
    return (
        f'<section class="einalg-kernel">{head}<div class="einalg-pair">{content}</div></section>'
    )


def _facts(figures: KernelFigures) -> str:
    """Return the time and the work of a kernel in words."""
    work = figures.work
    facts = [figures.time] if figures.time else []
    if work.bytes:
        flops, size = Unit.of([work.flops], DECIMAL), Unit.of([work.bytes], BINARY)
        facts.append(f"{flops.text(work.flops)} {flops.prefix}FLOP")
        facts.append(f"{size.text(work.bytes)} {size.prefix}B")
        facts.append(f"{significant(work.intensity)} FLOP/B")
    return " · ".join(facts)


def numbered_names(kernel: Kernel) -> dict[str, int]:
    """Return the indices and tensors of a kernel, numbered in the order in which one reads them."""
    names: dict[str, None] = {kernel.output: None}
    if kernel.scope is not None:
        names.update(dict.fromkeys(_extents(kernel.scope)))
        names.update(dict.fromkeys(kernel.scope.tensors))
    return {name: number for number, name in enumerate(list(names)[:MAX_NAMES])}


def _extents(scope: Scope) -> dict[str, int]:
    """Return how many values each index takes."""
    extents = {}
    for it in scope.iterators:
        extents[str(it.index)] = it.extent
    for reduction in _all_reductions(scope):
        for it in reduction.iterators:
            extents[str(it.index)] = it.extent
    return extents


def _all_reductions(scope: Scope) -> list[Reduce]:
    listed = list(reductions(scope.body))
    for reduction in listed:
        listed += reductions(reduction.body)
    return listed


def _chips(kernel: Kernel, scope: Scope, names: dict[str, int]) -> str:
    """Return what can be pointed at, or reached by the keyboard: each name with its size."""
    sizes = {kernel.output: _shape(scope.shape)}
    for name, extent in _extents(scope).items():
        sizes[name] = str(extent)
    for name, tensor in scope.tensors.items():
        sizes[name] = _shape(tensor.shape)
    chips = []
    for name, number in names.items():
        label = f"{escape(name)} <small>{sizes[name]}</small>"
        chips.append(f'<span {NUMBER}="{number}" tabindex="0">{label}</span>')
    return f'<div class="einalg-chips">{" ".join(chips)}</div>'


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "a number"


def _source(source: str, language: str, names: dict[str, int]) -> str:
    block = source_html(source, language, names)
    lines = block.count("\n") + 1
    summary = f"{counted(lines, 'line')} of {'CUDA' if language == 'cuda' else 'C'}"
    return folded(summary, block, is_open=lines <= MAX_OPEN_LINES)
