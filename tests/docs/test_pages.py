"""The pages that are made from the code hold all of it, and what they show is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import einalg as ea
from codegen.tuning.spaces.cuda.unit_spaces import DEVICE_CARDS
from codegen.tuning.spaces.unit_spaces import SPACE_CARDS
from derive.rewriting.moves import apply, moves
from derive.rules import ALL
from docs.pages import PAGES, api, command_line, errors, operators, performance, rules, schedules
from einalg.errors import EinalgError
from einalg.language.ir.program import as_program
from einalg.language.ops.definition.registry import OPERATORS
from einalg.language.ops.templates import PLAIN, TEMPLATES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("rule", ALL.values(), ids=lambda rule: rule.name)
def test_the_example_of_a_rule_has_a_move_that_is_proved(rule):
    example = rules.example_of(rule)
    program = as_program(ea.parse(example.text, **example.shapes))
    move = next(moves(program, [rule]))
    after = apply(program, move, ALL)
    assert after != program and ea.prove(program, after).verdict == "proved"


def test_the_rules_page_has_every_card():
    text = rules.page()
    for rule in ALL.values():
        assert f"### {rule.name.capitalize()}\n" in text
        assert f"{rule.before}\n⇒ {rule.after}\n" in text
    assert text.count("(proved)") == len(ALL)


def test_the_schedules_page_has_every_card():
    text = schedules.page()
    for name, cards in {**SPACE_CARDS, **DEVICE_CARDS}.items():
        assert f"## {name.capitalize()}\n" in text
        for number, card in cards.items():
            assert f"| `{number}` | `{card.step}` | {card.effect} | {card.condition} |" in text


def test_the_operators_page_has_every_operator_once():
    text = operators.page()
    entries = re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)
    assert sorted(entry.rpartition(".")[2] for entry in entries) == sorted(OPERATORS)
    assert {name for names in operators.matched_names().values() for name in names} == {
        t.name for t in (*TEMPLATES, *PLAIN)
    }


def test_the_api_page_has_every_public_name_once():
    listed = [name for names in api.SECTIONS.values() for name in names.split()]
    assert sorted([*listed, *api.ELSEWHERE]) == sorted(ea.__all__), (
        "a public name has its place in SECTIONS of docs/pages/api.py"
    )


def test_the_errors_page_has_every_class_and_every_message():
    text = errors.page()
    assert set(errors.family()) >= {EinalgError, ea.NotationError, ea.RecordError}
    assert all(f"\n## {kind.__name__}\n" in text for kind in errors.family())
    messages = errors.messages()
    written = sum(path.read_text().count("\n### ") + 1 for path in errors.TRANSCRIPTS.glob("*.txt"))
    assert len(messages) == written > 100
    assert all(message.text in text and message.kind in text for message in messages)


def test_the_performance_page_has_every_result(tmp_path, monkeypatch):
    text = performance.page()
    kept = [path.stem for path in (ROOT / "bench" / "results").glob("*.json")]
    assert kept and all(
        f"## {stem.replace('_', ' ').replace('-', ', ').capitalize()}\n" in text for stem in kept
    )
    for title in ("kernels: kernels", "kernels: threads", "models: models"):
        header = text.split(f"### {title}\n\n")[1].splitlines()[2]
        assert "| target | missed |" in header
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "speed.json").write_text(
        '{"machine": {"python": "3.11"}, "note": "one", "rows": [{"case": "a", "ratio": 0.5}]}'
    )
    monkeypatch.setattr(performance, "BENCH", tmp_path)
    text = performance.page()
    assert "Measured on: python 3.11." in text and "Note: one" in text and "| a | 0.5 |" in text


def test_the_command_line_page_has_the_exit_codes():
    text = command_line.page()
    assert "\n  130  interrupted\n" in text and "\b" not in text


def test_every_page_is_in_the_table_of_contents():
    listed = set(
        re.findall(
            r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().split("nav:")[1].split("hooks:")[0]
        )
    )
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert listed == written | set(PAGES)
