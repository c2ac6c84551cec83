"""The page of the documentation that lists the known laws, from the tables that the tests prove."""

from __future__ import annotations

from derive.proof.identities.laws import LAWS
from tests.helpers.laws.everyday import EVERYDAY, EVERYDAY_WRONG
from tests.helpers.laws.held_out import HELD_OUT
from tests.helpers.laws.known import KNOWN
from tests.helpers.laws.unseen import UNSEEN, UNSEEN_WRONG
from tests.helpers.laws.wrong import WRONG

MAX_CHARACTERS = 400  # of a side that is shown
APART = len(HELD_OUT) + len(UNSEEN) + len(EVERYDAY)
NO_LAWS = len(WRONG) + len(UNSEEN_WRONG) + len(EVERYDAY_WRONG)
INTRODUCTION = f"""# Laws that are proved

If both sides are sums of products, `ea.prove` compares access relations, which is exact. For other functions it uses laws: both sides are
written in a normal form. If choices are left (a maximum, an absolute value, a condition), the difference is shown to be 0 in every case. The
verdict is then `proved`, and its method says `laws of functions`.

A proof holds over the real numbers, wherever both sides have a value:

- No denominator is 0. If the sign of one is not known, the method says so: `laws of functions, where no denominator is 0`. A denominator
  that is 0 for many inputs, such as `Max(x, 0)`, must stand on both sides.
- A logarithm or a root of a value that may be negative must stand on both sides: `log(x**2)` is not `2*log(x)`.
- If a condition may exclude all elements of a maximum, it has no value, and must stand on both sides.
- Rounding, overflow and NaN are not part of it.

Below are {len(KNOWN)} laws by family, all of them proved by the tests; {APART} more, which are not shown here, are proved too, and none of
{NO_LAWS} pairs that only look like laws is. The prover has no list of these: it applies the laws at the end of this page, in any order and at any size.
"""


def page() -> str:
    """Return the page as Markdown."""
    parts = [INTRODUCTION]
    family = ""
    for law in KNOWN:
        if law.family != family:
            family = law.family
            parts.append(
                f"\n## {family[0].upper()}{family[1:]}\n\n| law | one side | other side |\n|---|---|---|\n"
            )
        parts.append(f"| {law.name} | {_side(law.one)} | {_side(law.two)} |\n")
    parts.append(
        "\n## What the normal forms apply\n\n| law | before | after | requires |\n|---|---|---|---|\n"
    )
    for row in LAWS:
        requires = f"`{row.requires}`" if row.requires else ""
        parts.append(f"| {row.name} | {_code(row.before)} | {_code(row.after)} | {requires} |\n")
    return "".join(parts)


def _side(text: str) -> str:
    """Return a side as lines of code; only its last line where it is long."""
    lines = text.splitlines()
    if len(text) > MAX_CHARACTERS:
        lines = ["…", lines[-1]]
    return "<br>".join(map(_code, lines))


def _code(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return f"`{escaped}`"
