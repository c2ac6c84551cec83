"""Derivations of common kinds of layers that come with einalg.

`common_forms.json` has them by families of layers; `python -m bench.common_forms` makes it anew.
Of what they gain there are estimates only: it is measured before they are taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from derive.programs.forms.known_forms import KnownForm

PATH = Path(__file__).with_name("common_forms.json")
AS_ESTIMATED = {"scale": 1.0, "original_scale": 1.0, "ratio": 1.0}


@cache
def common_forms() -> Mapping[str, Sequence[KnownForm]]:
    """Return the derivations that come with einalg, by families of layers.

    >>> family = "O[n:1, f, w] = Sum[c, s:3](A0.pad(0, 0, 1)[n, c, s + w - 1]*A1[f, c, s])"
    >>> print(common_forms()[family][0].outline.groups[0][0])
    bilinear factorisation at O: output=w, tap=s, tile=4
    """
    families = {}
    for family, rows in json.loads(PATH.read_text(encoding="utf-8")).items():
        families[family] = [KnownForm.from_record({**row, **AS_ESTIMATED}) for row in rows]
    return families


def as_text(families: Mapping[str, Sequence[KnownForm]]) -> str:
    """Return the content of the file with these derivations: a line for each."""
    parts = []
    for family, forms in sorted(families.items()):
        rows = []
        for form in forms:
            record = form.as_record()
            rows.append("    " + json.dumps({"groups": record["groups"], "sizes": record["sizes"]}))
        parts.append(f"  {json.dumps(family)}: [\n" + ",\n".join(rows) + "\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"
