"""The widget of a session without its drawing: sections of plain values that it shows, and actions
of the messages of its buttons (design §1).

There is no notebook in it: a front end gets the sections as they change and sends messages, and so
can a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from derive.interactive.choices import MoveList
from derive.interactive.parts import Part, parts_at
from derive.matching import nearest_distance, templates
from einalg.api.interactive.background_search import Searching
from einalg.display.formula_parts import formula_with_parts
from einalg.display.results.moves import change_html
from einalg.errors import EinalgError, UseError
from einalg.text.wording import counted

Section = Any  # JSON values
Group = tuple[Section, Sequence[Any]]  # the card of a rule or a title, and the moves below it
Listener = Callable[[Mapping[str, Section]], None]
MAX_SHOWN_MOVES = 20  # of a group, unless more are asked for
MAX_OPENED_MOVES = 12  # of a part, which are shown at once
MAX_NEAR_OPERATORS = 6  # whose distance is shown at once
EXPORTS = {
    "script": ("derivation.py", lambda session: session.history.script()),
    "json": ("derivation.json", lambda session: session.to_json()),
    "latex": ("derivation.tex", lambda session: session.history.latex()),
}


class SessionPanel:
    """The sections of a session by name, kept up to date with it; `listeners` are told which of
    them changed.
    """

    def __init__(self, session: Any):
        self.session = session
        self.listeners: list[Listener] = []
        self.sections: dict[str, Section] = {"message": {"text": "", "kind": "done"}}
        self.version = 0
        self.widget: Any = None  # what shows it, once it is shown in a notebook
        self._opened: set[str] = set()  # rules and titles whose moves are shown
        self._whole: set[str] = set()  # those of which all moves are shown, however many
        self._opened_at_part: set[str] = set()  # those besides, because a part has few moves
        self._part: Part | None = None  # of which the moves are shown; of all without one
        self._shown_program: Any = None
        self._choices = MoveList()
        self._changes: dict[int, tuple[str, str]] = {}  # of `_choices`, by number, once shown
        self._lock = RLock()
        self._searching = Searching(session, self._publish)
        session.watchers.append(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Everything that depends on the program, anew: what is quick to say first."""
        with self._lock:
            if self._shown_program is not self.session.expr:
                self._part = None
            self._shown_program = self.session.expr
            kernels = {
                "kernels": [str(kernel) for kernel in self.session.kernels],
                "source": "",
                "language": "",
            }
            self.version += 1  # before anything slow: the moves that are shown are those of before
            self._publish(program=self._program(), steps=self._steps(), kernels=kernels, export={})
            self._list_moves()
            self._publish(search=self._searching.section(), distances=self._distances())

    def _list_moves(self) -> None:
        """The moves of the part that is chosen, or all, anew."""
        self._choices = self.session.possible(at=self._part)
        self._changes.clear()
        self._opened_at_part = set()
        self._whole.clear()
        if self._part is not None and len(self._choices) <= MAX_OPENED_MOVES:
            self._opened_at_part = {choice.move.rule for choice in self._choices}
        part, aim = self._chosen_part(), self._aim()
        self._publish(version=self.version, part=part, aim=aim, rules=self._groups())

    def handle(self, message: Mapping[str, Any]) -> None:
        """Do what a button asks for; what cannot be done becomes the message that is shown."""
        actions = {
            "apply": self.apply,
            "undo": self.undo,
            "redo": self.redo,
            "go_to": self.go_to,
            "open": self.open,
            "more": self.more,
            "aim": self.aim,
            "part": self.part,
            "search": self._searching.start,
            "stop": self._searching.stop,
            "follow": self.follow,
            "source": self.source,
            "export": self.export,
            "ping": lambda: None,  # to be answered, which tells that somebody is there
        }
        arguments = dict(message)
        try:
            name = arguments.pop("do", None)
            if name not in actions:
                raise UseError(
                    f"there is nothing that does {name!r}\n  known: {', '.join(actions)}"
                )
            actions[name](**arguments)
        except EinalgError as error:
            self._say(error.message, "error")
        except Exception as error:  # else nobody would see it: a kernel shows no errors of messages
            self._say(f"{type(error).__name__}: {error}", "error")
            raise

    def apply(self, number: int, version: int) -> None:
        """Apply a move of the list; one of a list that is no longer shown does nothing."""
        if version != self.version:
            return
        if not 0 <= number < len(self._choices):
            raise UseError(
                f"there is no move number {number}: there are {len(self._choices)}\n"
                "  take one of the list"
            )
        step = self.session.apply(self._choices[number])
        self._say(f"{step.move.rule}: {step.verdict}")

    def undo(self) -> None:
        """Take the last step back."""
        self.session.undo()
        self._say(f"back at step {len(self.session.history)}")

    def redo(self) -> None:
        """Apply again the step that was taken back last."""
        self.session.redo()
        self._say(f"at step {len(self.session.history)} again")

    def go_to(self, state: int) -> None:
        """Go to a state of any branch."""
        self.session.go_to(state)
        self._say(f"at step {len(self.session.history)}, state {state}")

    def open(self, rule: str, opened: bool) -> None:
        """Show the moves of a group, or hide them."""
        if opened == self._is_open(rule):
            return
        self._opened_at_part.discard(rule)
        if opened:
            self._opened.add(rule)
        else:
            self._opened.discard(rule)
        self._publish(rules=self._groups())

    def more(self, rule: str) -> None:
        """Show all moves of a group."""
        self._whole.add(rule)
        self._publish(rules=self._groups())

    def _is_open(self, name: str) -> bool:
        return name in self._opened or name in self._opened_at_part

    def aim(self, operator: str | None) -> None:
        """Go towards an operator, or nowhere in particular."""
        self.session.aim(operator)
        self._say(f"towards {operator}" if operator else "no aim")

    def follow(self, candidate: int) -> None:
        """Apply the moves of a candidate that the search found, from where it began."""
        moves, began = self._searching.moves_of(candidate)
        if began != self.session.branches.current:
            self.session.go_to(began)
        self.session.follow(moves)
        self._say(f"{counted(len(moves), 'move')} applied")

    def source(self, language: str = "c") -> None:
        """Show the source of the kernels that are generated."""
        self._publish_source("compiling …", language)
        target = "cuda" if language == "cuda" else "cpu"
        try:
            text = self.session.compile(target).source(language)
        except EinalgError:
            self._publish_source("", "")
            raise
        self._publish_source(text or "every kernel is a library's", language)

    def _publish_source(self, source: str, language: str) -> None:
        kernels = self.sections["kernels"]
        self._publish(kernels={**kernels, "source": source, "language": language})

    def export(self, kind: str) -> None:
        """Show the derivation as a script, as JSON or as LaTeX."""
        if kind not in EXPORTS:
            raise UseError(f"there is no export {kind!r}\n  known: {', '.join(EXPORTS)}")
        name, export = EXPORTS[kind]
        self._publish(export={"kind": kind, "name": name, "text": export(self.session)})

    def wait(self, seconds: float | None = None) -> None:
        """Until a search that is running has ended."""
        self._searching.wait(seconds)

    def _say(self, text: str, kind: str = "done") -> None:
        self._publish(message={"text": text, "kind": kind})

    def _publish(self, **changed: Section) -> None:
        with self._lock:
            self.sections.update(changed)
            for listener in self.listeners:
                listener(changed)

    def _program(self) -> Section:
        parts = self.session.parts()
        return {
            "math": formula_with_parts(self.session.expr, parts),
            "text": str(self.session.expr),
            "distance": self.session.distance,
            "parts": [{"name": part.name, "text": part.text} for part in parts],
        }

    def _steps(self) -> list[Section]:
        """Return the states as rows of their tree: `undone` can be redone, `aside` are the rest."""
        branches = self.session.branches
        future = {state.number for state in branches.future()}
        line = {0, *(state.number for state in branches.path())} | future
        rows = []
        for state, forks in branches.rows():
            rule, detail, verdict = "given", "", ""
            if state.step is not None:
                move, verdict = state.step.move, state.step.verdict
                rule, detail = move.rule, _detail(move)
            row = {"rule": rule, "detail": detail, "verdict": verdict, "text": str(state.program)}
            place = {
                "number": state.number,
                "now": state.number == branches.current,
                "undone": state.number in future,
                "aside": state.number not in line,
                "forks": list(forks),
                "first": branches.begins_branch(state),
                "end": not branches.children(state.number),
            }
            rows.append({**row, **place})
        return rows

    def part(self, name: str | None) -> None:
        """Show the moves that change a part of the formula, or all moves."""
        with self._lock:
            part = None
            if name is not None:
                (part,) = parts_at(self.session.expr, name)
            self._part = part
            self.version += 1
            self._list_moves()
        if part is None:
            self._say("all moves")
        else:
            self._say(f"{counted(len(self._choices), 'move')} at {part.name}")

    def _chosen_part(self) -> Section:
        """The part of which the moves are shown, with the next larger one."""
        part = self._part
        if part is None:
            return {"name": ""}
        place = ".".join(map(str, part.path))
        wider = place
        if part.name == place:
            wider = place.rpartition(".")[0]
        row = {"name": part.name, "text": part.text, "wider": wider}
        return {**row, "count": len(self._choices)}

    def _aim(self) -> Section:
        """The operator that the session aims at, and those that it may aim at."""
        operators = sorted({template.name for template in templates()})
        aim = self.session.aimed
        if aim is None:
            return {"operator": "", "operators": operators}
        reasons = [reason.text for reason in aim.distance.reasons]
        start = float(nearest_distance(self.session.history.start, aim.operator))
        distances = {"distance": float(aim.distance), "start": start, "reasons": reasons}
        return {"operator": aim.operator, "operators": operators, **distances}

    def _groups(self) -> list[Section]:
        """The moves by their rules or, with an aim, by whether they lead nearer to it."""
        if self.session.aimed is None:
            groups = self._by_rule()
        else:
            groups = self._by_nearness()
        names = [card["name"] for card, choices in groups if choices]
        if not any(map(self._is_open, names)):
            self._opened.update(names[:1])
        return [self._group(card, choices) for card, choices in groups]

    def _by_rule(self) -> list[Group]:
        choices: dict[str, list[Any]] = {}
        for choice in self._choices:
            choices.setdefault(choice.move.rule, []).append(choice)
        groups = []
        for rule in self.session.offered:
            card = {"before": rule.before, "after": rule.after, "requires": rule.requires}
            groups.append(({"name": rule.name, **card}, choices.get(rule.name, [])))
        return groups

    def _by_nearness(self) -> list[Group]:
        groups = self._choices.by_nearness()
        return [({"name": title, "before": ""}, choices) for title, choices in groups]

    def _group(self, card: Section, choices: Sequence[Any]) -> Section:
        opened = self._is_open(card["name"]) and bool(choices)
        shown = choices
        if card["name"] not in self._whole:
            shown = choices[:MAX_SHOWN_MOVES]
        moves = [self._move(choice) for choice in shown] if opened else []
        return {**card, "count": len(choices), "open": opened, "moves": moves}

    def _move(self, choice: Any) -> Section:
        if choice.number not in self._changes:
            self._changes[choice.number] = change_html(choice)
        before, after = self._changes[choice.number]
        return {
            "number": choice.number,
            "rule": choice.move.rule,
            "detail": _detail(choice.move),
            "nearness": choice.nearness,
            "nearer": choice.is_nearer,
            "before": before,
            "after": after,
            "distance": self._distance(choice),
        }

    def _distance(self, choice: Any) -> float | None:
        """The distance after a move to the nearest operators; with an aim it is not shown."""
        if choice.aim is not None:
            return None
        return choice.distance

    def _distances(self) -> Section:
        ranked = []
        for distance in self.session.distances():
            reasons = [reason.text for reason in distance.reasons]
            row = {"operator": distance.operator, "distance": float(distance), "reasons": reasons}
            ranked.append(row)
        return {"near": ranked[:MAX_NEAR_OPERATORS], "far": ranked[MAX_NEAR_OPERATORS:]}


def _detail(move: Any) -> str:
    """Return where a move is applied and how, without the name of its rule."""
    return str(move).partition(" at ")[2]
