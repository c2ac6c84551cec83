"""Rules as text: equations of terms, as egg and Tensat write them, or as TASO's verifier does.

`(matmul 0 ?a (matmul 0 ?b ?c))=>(matmul 0 (matmul 0 ?a ?b) ?c)` and
`matmul(a,matmul(b,c))==matmul(matmul(a,b),c)` are one rule. Numbers are parameters, in the order of
`PARAMETERS`; all else is read. Equations whose right sides read what their left side does not are
the outputs of one rule with those that follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derive.substitutions.files.checking import MAX_OPERATIONS, checked_graph, operation, wrong_rule
from derive.substitutions.files.taso_numbers import ACTIVATIONS, PADDINGS, SWAPPED, word
from derive.substitutions.graphs.graph import Leaf, Operation, Port, Source
from derive.substitutions.verification.rule import Substitution
from einalg.errors import RecordError

REMEDY = "write one equation a line: (relu (relu ?a))=>(relu ?a)"
EQUALS = ("=>", "==")
TOKEN = re.compile(r"\s*(=>|==|[\w?.]+\(|[\w?.]+|\S)")
COMMENT = re.compile(r"^\s*[#;].*$", re.MULTILINE)
NUMBERS = re.compile(r"\d{1,9}(_\d{1,9})*")
NAME = re.compile(r"\?|\?*[A-Za-z]\w*")
PART = re.compile(r"split_(\d{1,9})")
MAX_DEPTH = 64
MOST_OUTPUTS = 4  # equations that are joined to one rule
OTHER_NAMES = {
    "scalar_mul": "smul",
    "pool2d_avg": "poolavg",
    "pool2d_max": "poolmax",
    "Iconv": "const_iconv",
    "Cpool": "const_pool",
    "Imatmul": "const_imm",
    "Iewmul": "const_one",
}
PARAMETERS: Mapping[str, tuple[str, ...]] = {  # of which the last may be left out
    "conv2d": ("stride", "stride", "pad", "act"),
    "poolavg": ("kernel", "kernel", "stride", "stride", "pad", "act"),
    "poolmax": ("kernel", "kernel", "stride", "stride", "pad", "act"),
    "matmul": ("act",),
    "concat": ("axis", "ndim"),
    "split": ("axis", "ndim"),
    "enlarge": ("kernel", "kernel"),
    "merge": ("count",),
    "const_iconv": ("kernel", "kernel"),
    "const_pool": ("kernel", "kernel"),
    "transpose": ("perm", "shuffle"),
}
WORDS = {"pad": PADDINGS, "act": ACTIVATIONS}


@dataclass(frozen=True)
class RuleTerm:
    """An operator with its numbers and what it reads; a leaf is a name alone."""

    name: str
    numbers: tuple[str, ...] = ()
    operands: tuple[RuleTerm, ...] = ()
    is_leaf: bool = False

    @property
    def leaves(self) -> list[str]:
        """The tensors that are read, from left to right."""
        if self.is_leaf:
            return [self.name]
        return [leaf for operand in self.operands for leaf in operand.leaves]


Equation = tuple[RuleTerm, RuleTerm]


def is_text(content: bytes) -> bool:
    """Return whether a file has equations of terms."""
    return b"\0" not in content and any(sign.encode() in content for sign in EQUALS)


def rules_of_text(text: str) -> Iterator[Substitution]:
    """Yield the rules of a text, named by their places. Raises `RecordError` for what is none.

    >>> text = "(relu (relu ?a))=>(relu ?a)\\nconcat(1,relu(a),relu(b))==relu(concat(1,a,b))"
    >>> for rule in rules_of_text(text):
    ...     print(rule.name, len(rule.graph.before), len(rule.graph.after))
    0 2 1
    1 3 2
    """
    for number, equations in enumerate(_joined(_equations(COMMENT.sub("", text)))):
        yield _rule(str(number), equations)


def _joined(equations: Iterator[Equation]) -> Iterator[list[Equation]]:
    """Yield the equations of each rule: together their left sides read all that the right ones do.

    Equations for which that is never so are rules of their own.
    """
    waiting: list[Equation] = []
    for equation in equations:
        waiting.append(equation)
        first = _first_of_closed(waiting)
        if first is not None:
            yield from ([other] for other in waiting[:first])
            yield waiting[first:]
            waiting = []
        elif len(waiting) == MOST_OUTPUTS:
            yield [waiting.pop(0)]
    yield from ([other] for other in waiting)


def _first_of_closed(equations: Sequence[Equation]) -> int | None:
    """Return where the fewest last equations begin that are a rule; None where none are."""
    for first in reversed(range(len(equations))):
        if _is_closed(equations[first:]):
            return first
    return None


def _is_closed(equations: Sequence[Equation]) -> bool:
    read = {leaf for before, _ in equations for leaf in before.leaves}
    return all(read.issuperset(after.leaves) for _, after in equations)


def _equations(text: str) -> Iterator[Equation]:
    """Yield the equations of a text."""
    reader = _Reader([match.group(1) for match in TOKEN.finditer(text)])
    while reader.tokens:
        before = reader.term()
        if reader.next() not in EQUALS:
            raise reader.error("has no => after its left side")
        yield before, reader.term()
        reader.equation += 1


class _Reader:
    """Tokens of which terms are read."""

    def __init__(self, tokens: list[str]):
        self.tokens, self.equation = tokens[::-1], 0

    def error(self, problem: str) -> RecordError:
        return RecordError(f"equation {self.equation} {problem}\n  {REMEDY}")

    def next(self) -> str:
        if not self.tokens:
            raise self.error("ends too early")
        return self.tokens.pop()

    def term(self, depth: int = 0) -> RuleTerm:
        """Read `?a`, `(relu ?a)` or `relu(a)`."""
        if depth > MAX_DEPTH:
            raise self.error(f"is deeper than {MAX_DEPTH} operators")
        token = self.next()
        if token == "(":
            return self._operator(self.next(), "", depth)
        if token.endswith("("):
            return self._operator(token[:-1], ",", depth)
        if not NAME.fullmatch(token):
            raise self.error(f"has {token[:40]!r} where an operator or a tensor is read")
        if token in OTHER_NAMES:  # a constant without parameters
            return RuleTerm(OTHER_NAMES[token])
        return RuleTerm(token.lstrip("?"), is_leaf=True)

    def _operator(self, name: str, separator: str, depth: int) -> RuleTerm:
        """Read the operands of an operator, and the bracket after them."""
        numbers, operands = [], []
        while self.tokens and self.tokens[-1] != ")":
            if separator and (numbers or operands) and self.next() != separator:
                raise self.error(f"has no {separator!r} between the operands of {name[:40]!r}")
            if self.tokens and NUMBERS.fullmatch(self.tokens[-1]):
                numbers.append(self.next())
            else:
                operands.append(self.term(depth + 1))
        self.next()
        return RuleTerm(OTHER_NAMES.get(name, name), tuple(numbers), tuple(operands))


def _rule(name: str, equations: Sequence[Equation]) -> Substitution:
    """Return the rule whose outputs are the sides of some equations."""
    labels: dict[str, None] = {}
    for equation in equations:
        for term in equation:
            labels.update(dict.fromkeys(term.leaves))
    leaves = {label: Leaf(number) for number, label in enumerate(labels, 1)}
    sides = []
    for side in range(2):
        graph = _Side(name, leaves)
        sides.append((graph, [graph.source(equation[side]) for equation in equations]))
    operations = [graph.operations for graph, _ in sides]
    outputs = list(zip(*[sources for _, sources in sides], strict=True))
    return Substitution.of_graph(name, checked_graph(name, operations, outputs, {}))


class _Side:
    """The operations of the terms of a side, equal ones once."""

    def __init__(self, name: str, leaves: Mapping[str, Leaf]):
        self.name, self.leaves = name, leaves
        self.operations: list[Operation] = []

    def source(self, term: RuleTerm) -> Source:
        """Return what a term is, with its operations among those of the side."""
        if term.is_leaf:
            return self.leaves[term.name]
        part = PART.fullmatch(term.name)
        if part is not None:
            if len(term.operands) != 1 or term.operands[0].name != "split":
                raise wrong_rule(self.name, f"{term.name} reads no split", REMEDY)
            split = self.source(term.operands[0])
            assert isinstance(split, Port)
            return Port(split.operation, int(part.group(1)))
        inputs = [self.source(operand) for operand in term.operands]
        made = operation(term.name, self._parameters(term), inputs)
        if made not in self.operations:
            if len(self.operations) > MAX_OPERATIONS:
                raise wrong_rule(self.name, f"it has more than {MAX_OPERATIONS} operations")
            self.operations.append(made)
        return Port(self.operations.index(made))

    def _parameters(self, term: RuleTerm) -> dict[str, Any]:
        """Return the parameters that the numbers of an operator are."""
        keys = PARAMETERS.get(term.name, ())
        if len(term.numbers) > len(keys):
            problem = f"{term.name[:40]} has {len(term.numbers)} numbers, but takes {len(keys)}"
            raise wrong_rule(self.name, problem, REMEDY)
        parameters: dict[str, Any] = {}
        for key, text in zip(keys, term.numbers):
            numbers = [int(digits) for digits in text.split("_")]
            if key == "perm":
                parameters[key] = tuple(numbers)
            elif len(numbers) > 1:
                raise wrong_rule(self.name, f"{term.name} has {text} for {key}", REMEDY)
            elif keys.count(key) > 1:
                parameters[key] = (*parameters.get(key, ()), *numbers)
            elif key in WORDS:
                parameters[key] = word(self.name, WORDS[key], numbers[0])
            elif key != "shuffle":  # which says how the result lies in memory
                parameters[key] = numbers[0]
        if term.name == "transpose":
            parameters.setdefault("perm", SWAPPED)
        if term.name == "split":
            parameters["n"] = 2
        return parameters
