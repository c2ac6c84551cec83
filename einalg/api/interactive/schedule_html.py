"""A schedule that is chosen by hand as HTML: its numbers and loops with the source beside them."""

from __future__ import annotations

from html import escape

from codegen.program.by_hand import ProgramSchedule, in_cycles
from codegen.tuning.by_hand.choices import ScheduleChoices
from codegen.tuning.by_hand.unit import ScheduledUnit
from einalg.display.html import folded, page
from einalg.display.kernels.source_code import source_html
from einalg.display.mathml import formula
from einalg.display.tables import table
from einalg.text.wording import counted

NUMBER_HEADS = ("number", "value", "step", "what it is")
CHOICE_HEADS = ("now", "step", "possible", "what it is", "if")


def schedule_html(schedule: ProgramSchedule) -> str:
    """Return the kernels of a schedule below each other, then its steps and those possible."""
    blocks = [_unit(schedule, unit) for unit in schedule.units.values()]
    steps = "<br>".join(escape(str(step)) for step in schedule.steps)
    blocks.append(folded(f"History: {counted(len(schedule.steps), 'step')}", steps))
    choices = schedule.choices()
    title = f"Steps that are possible: {len(choices)}, to be applied with s.apply(number)"
    blocks.append(folded(title, _choices_table(choices)))
    return page("".join(blocks), "einalg-schedule")


def choices_html(choices: ScheduleChoices) -> str:
    """Return a row for each number, with the values that it may have."""
    return page(_choices_table(choices) or "no step is possible", "einalg-schedule")


def _choices_table(choices: ScheduleChoices) -> str:
    rows: list[tuple[str, ...]] = []
    for row in choices.by_number():
        values = ", ".join(f"{choice.number}: {choice.value}" for choice in row.choices)
        first = row.first
        rows.append((row.title, first.name, values, first.effect, first.condition))
    if not rows:
        return ""
    return table(CHOICE_HEADS, rows)


def _unit(schedule: ProgramSchedule, unit: ScheduledUnit) -> str:
    """Return a kernel: its statements and numbers, beside them its loops and its source."""
    candidate = unit.candidate
    facts = f"{candidate.space.name}, {in_cycles(candidate.cycles)} expected"
    head = f"<header><code>{escape(unit.name)}</code> <small>{escape(facts)}</small></header>"
    statements = formula(list(unit.unit.program.statements))
    left = f"<div>{statements}{_numbers_table(unit)}</div>"
    loops = f'<pre class="einalg-source" tabindex="0">{escape(schedule.loops(unit.name))}</pre>'
    source = source_html(schedule.source(unit.name))
    right = f"<div>{folded('loops', loops, is_open=True)}{folded('source', source)}</div>"
    pair = f'<div class="einalg-pair">{left}{right}</div>'
    return f'<section class="einalg-kernel">{head}{pair}</section>'


def _numbers_table(unit: ScheduledUnit) -> str:
    rows: list[tuple[str, ...]] = []
    for hole in unit.candidate.space.holes(unit.candidate.point):
        name = hole.name if hole.part is None else f"part {hole.part}: {hole.name}"
        rows.append((name, str(hole.value), hole.card.step, hole.card.effect))
    return table(NUMBER_HEADS, rows)
