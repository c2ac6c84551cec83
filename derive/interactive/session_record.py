"""A session as a record: its history, which `History.load` reads too, and the other branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derive.interactive.branches import Branches, SessionState
from derive.results.history import KIND, History, replayed_step
from derive.rewriting.moves import Rule
from einalg.errors import RecordError
from einalg.language.notation.program_json import program_from_record
from einalg.storage import record


def session_record(history: History, branches: Branches) -> dict[str, Any]:
    """Return the content of a record: `steps` lead to the present state, `branches` are the rest.

    Each row has the number of its `state` and of its `parent`; `next` says whether it is where
    `redo` leads from there.
    """
    content = history.as_record()
    path = branches.path()
    for row, state in zip(content["steps"], path):
        row.update(_place(branches, state))
    others = []
    on_path = {state.number for state in path}
    for state in branches:
        if state.step is not None and state.number not in on_path:
            others.append({**state.step.as_record(), **_place(branches, state)})
    return {**content, "branches": others}


def _place(branches: Branches, state: SessionState) -> dict[str, Any]:
    return {"state": state.number, "parent": state.parent, "next": branches.is_next(state)}


def load_branches(path: Any, rules: Mapping[str, Rule]) -> Branches:
    """Read the states of a session, each made again from its parent.

    Raises `RecordError` where the file is broken, or a step does not give what it gave.
    """
    content = record.read(path, KIND)
    branches = Branches(program_from_record(content.get("start")))
    steps, others = _rows(content, "steps", path), _rows(content, "branches", path)
    placed = []
    for number, row in enumerate(steps, 1):  # those of a history have no numbers
        placed.append({"state": number, "parent": number - 1, "next": True, **row})
    rows = sorted([*placed, *others], key=lambda row: _number(row, "state", path))
    next_states = []
    for number, row in enumerate(rows, 1):
        parent = _number(row, "parent", path)
        if row["state"] != number or not 0 <= parent < number:
            raise RecordError(
                f"{path} has a state {row['state']} of parent {parent}, where {number} is due\n"
                "  save the session again"
            )
        where = f"step {number} of {path}"
        step = replayed_step(row, branches[parent].program, rules, where)
        branches.add(step, parent)
        if row.get("next") is True:
            next_states.append(number)
    for number in next_states:
        branches.go_to(number)
    branches.go_to(placed[-1]["state"] if placed else 0)
    return branches


def _rows(content: Mapping[str, Any], name: str, path: Any) -> list[dict[str, Any]]:
    """Return the rows of a list in a record; one that has none of `branches` is a history."""
    rows = content.get(name, [] if name == "branches" else None)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RecordError(f"{path} has no list of {name}\n  save the session again")
    return rows


def _number(row: Mapping[str, Any], name: str, path: Any) -> int:
    number = row.get(name)
    if not isinstance(number, int) or isinstance(number, bool):
        raise RecordError(f"{path} has a step without its {name}\n  save the session again")
    return number
