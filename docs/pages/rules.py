"""The rule reference: every card, with what the rule makes of its example."""

from __future__ import annotations

import inspect
import sys

import einalg as ea
from derive.rewriting.moves import Example, Rule, apply, moves
from derive.rules import ALL, RULES
from docs.pages.markdown import block, with_examples_as_blocks
from einalg.language.ir.program import as_program

INTRODUCTION = """# Rules

A derivation is a sequence of moves. A **move** is a rule, applied at one place of a program, with
arguments. The card of a rule shows the expression before and after, and what the rule requires.
Every time that a rule is applied, it checks its requirements with integer sets (isl), and raises
`RuleError` if they do not hold.

The cards use the notation of the EinNet paper. `L[x∈X] f` is a scope: the value of `f` at every
point `x` of the domain `X`. `Σ[s]` is a sum over `s`. Braces hold an inner scope. `f ~ g` are two
expressions side by side. `Φ` maps indices to indices.

`ea.Session` applies rules by hand; see the [tutorial](../tutorial.md). `ea.derive` searches
through them. Each rule is tested alone, on random expressions, by the same
[`check_rule`](../extend/rule.md) that you can use for your own.
"""
SPELLINGS = """## Other ways to write the same thing

These rules do not change what is computed in each statement. They give an inner scope a name or
put it back, compute a part of a body first or once for many points, or use the laws of arithmetic.
The search uses them around the rules above.
"""


def page() -> str:
    """The whole page."""
    rules = [_entry(rule) for name, rule in ALL.items() if name in RULES]
    spellings = [_entry(rule) for name, rule in ALL.items() if name not in RULES]
    return "\n\n".join([INTRODUCTION, "## The rules of derivation", *rules, SPELLINGS, *spellings])


def _entry(rule: Rule) -> str:
    requires = f"Requires: {_plain(rule.requires)}." if rule.requires else "Requires nothing."
    parts = [
        f"### {rule.name.capitalize()}",
        _about(rule),
        block(f"{rule.before}\n⇒ {rule.after}"),
        f"{requires} Source: {rule.section}.",
        _arguments(rule),
        *_demonstration(rule, example_of(rule)),
    ]
    return "\n\n".join(part for part in parts if part)


def example_of(rule: Rule) -> Example:
    """The example on a rule's card; `ValueError` where it has none."""
    if rule.example is None:
        raise ValueError(
            f"the card of {rule.name} has no example: give it example=Example(text, shapes)"
        )
    return rule.example


def _about(rule: Rule) -> str:
    """What the file of a rule says of it, unless that file holds several rules."""
    module = sys.modules[rule.find.__module__]
    title, _, text = (inspect.getdoc(module) or "").partition(": ")
    return text[:1].upper() + text[1:] if title.lower() == rule.name else ""


def _arguments(rule: Rule) -> str:
    text = inspect.getdoc(rule.rewrite) or ""
    names = [
        name
        for name in inspect.signature(rule.rewrite).parameters
        if name not in ("scope", "program", "path", "args")
    ]
    listed = ", ".join(f"`{name}`" for name in names)
    return "\n\n".join(
        part
        for part in (f"Arguments: {listed}." if names else "", with_examples_as_blocks(text))
        if part
    )


def _demonstration(rule: Rule, example: Example) -> list[str]:
    program = as_program(ea.parse(example.text, **example.shapes))
    move = next(moves(program, [rule]))
    after = apply(program, move, ALL)
    verdict = ea.prove(program, after).verdict
    shapes = ", ".join(f"{name}={shape}" for name, shape in example.shapes.items())
    steps = [
        f"s = ea.Session(ea.parse({example.text!r}, {shapes}))",
        f's.apply(s.moves("{rule.name}")[0])',
    ]
    return [
        "Example:",
        block("\n".join(steps), "python"),
        block(f"{program}\n\n⇒ {move}   ({verdict})\n\n{after}"),
    ]


def _plain(text: str) -> str:
    """Text outside a block of code, in which brackets would be links."""
    return text.replace("[", "\\[").replace("*", "\\*")
