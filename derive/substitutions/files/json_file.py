"""Rules as JSON: graphs of operators whose sizes are open, or pairs of texts with shapes.

`rules.schema.json` describes the form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from derive.substitutions.files.checking import checked_graph, is_shape, operation, wrong_rule
from derive.substitutions.graphs.graph import Leaf, Operation, Port, Source
from derive.substitutions.verification.rule import Substitution
from einalg.errors import EinalgError, RecordError, without_remedy
from einalg.language.index.size import Size, size
from einalg.language.notation.builders import tensor

MAX_NAME = 200
KEYS_OF_TEXTS = {"name", "id", "before", "after", "shapes", "sizes"}
KEYS_OF_OPERATIONS = {"op", "params", "inputs"}
KEYS_OF_OUTPUTS = {"src", "dst"}
SCHEMA = "see docs/how-to/verify-rules.md for the form"


def rules_of_json(text: str) -> Iterator[Substitution]:
    """Yield the rules of a file. Raises `RecordError` for what is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:100]
        raise RecordError(f"the rules are no JSON: {reason}\n  {SCHEMA}") from None
    if not isinstance(content, dict) or not {"sets", "rules"} & set(content):
        raise RecordError(f'the file has neither "rules" nor "sets"\n  {SCHEMA}')
    sets = content.get("sets", {})
    if not isinstance(sets, dict):
        raise RecordError(f'"sets" must be sets of rules by name\n  {SCHEMA}')
    if "rules" in content:
        yield from _rules_of_set("", content)
    for name, one in sets.items():
        if not isinstance(one, dict) or "rules" not in one:
            raise RecordError(f'set {name[:40]!r} has no "rules"\n  {SCHEMA}')
        yield from _rules_of_set(f"{name}/", one)


def _rules_of_set(prefix: str, one: dict[str, Any]) -> Iterator[Substitution]:
    rules = one["rules"]
    if not isinstance(rules, list):
        raise RecordError(f'"rules" must be a list\n  {SCHEMA}')
    shapes = _shapes(one.get("leaf_shapes", {}))
    for place, rule in enumerate(rules):
        if not isinstance(rule, dict):
            raise RecordError(f"rule {place} must be an object\n  {SCHEMA}")
        name = f"{prefix}{rule.get('name', rule.get('id', place))}"[:MAX_NAME]
        if "before" in rule or "after" in rule:
            yield _rule_of_texts(name, rule)
        else:
            yield _rule_of_graph(name, rule, shapes)


def _shapes(value: Any) -> dict[int, tuple[int, ...]]:
    if not isinstance(value, dict):
        raise RecordError(f'"leaf_shapes" must be shapes by the numbers of leaves\n  {SCHEMA}')
    shapes = {}
    for number, shape in value.items():
        if not number.isdecimal() or len(number) > 9 or not is_shape(shape):
            raise RecordError(f"the shape of leaf {number[:40]} is none\n  {SCHEMA}")
        shapes[int(number)] = tuple(shape)
    return shapes


def _rule_of_texts(name: str, rule: dict[str, Any]) -> Substitution:
    """Return a rule whose sides are texts in the notation."""
    _require_known(name, rule, KEYS_OF_TEXTS, "a rule of texts")
    sides = rule.get("before"), rule.get("after")
    shapes, bounds = rule.get("shapes", {}), rule.get("sizes", {})
    if not all(isinstance(side, str) for side in sides):
        raise wrong_rule(name, '"before" and "after" must be texts')
    if not isinstance(shapes, dict) or not isinstance(bounds, dict):
        raise wrong_rule(name, '"shapes" and "sizes" must be objects')
    for key, shape in shapes.items():
        if not isinstance(shape, list):
            raise wrong_rule(name, f"the shape of {key[:40]!r} is no list", SCHEMA)
    try:
        sizes = {key: size(key, **bound) for key, bound in bounds.items()}
        tensors = {}
        for key, shape in shapes.items():
            tensors[key] = tensor(key, tuple([_extent(axis, sizes) for axis in shape]))
        result = Substitution(name, *sides, **{**sizes, **tensors})
    except (EinalgError, TypeError) as error:
        raise wrong_rule(name, without_remedy(error)) from None
    for key in bounds:
        if key not in result.before.sizes and key not in result.after.sizes:
            raise wrong_rule(name, f"neither side has the size {key[:40]!r}", SCHEMA)
    return result


def _extent(axis: Any, sizes: Mapping[str, Size]) -> Any:
    return sizes.get(axis, axis) if isinstance(axis, str) else axis


def _rule_of_graph(
    name: str, rule: dict[str, Any], shapes: dict[int, tuple[int, ...]]
) -> Substitution:
    shapes = {**shapes, **_shapes(rule.get("leaf_shapes", {}))}
    sides = []
    for side in ("src", "dst"):
        operations = rule.get(side)
        if not isinstance(operations, list):
            raise wrong_rule(name, f'it has no list "{side}"', SCHEMA)
        sides.append([_operation(name, one) for one in operations])
    outputs = rule.get("outputs")
    if not isinstance(outputs, list):
        raise wrong_rule(name, 'it has no list "outputs"', SCHEMA)
    pairs = []
    for output in outputs:
        if not isinstance(output, dict):
            raise wrong_rule(name, 'an output is no object with "src" and "dst"', SCHEMA)
        _require_known(name, output, KEYS_OF_OUTPUTS, "an output")
        pairs.append((_source(name, output.get("src")), _source(name, output.get("dst"))))
    return Substitution.of_graph(name, checked_graph(name, sides, pairs, shapes))


def _operation(name: str, value: Any) -> Operation:
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise wrong_rule(name, 'an operation is no object with "op"', SCHEMA)
    _require_known(name, value, KEYS_OF_OPERATIONS, "an operation")
    parameters, inputs = value.get("params", {}), value.get("inputs", [])
    if not isinstance(parameters, dict) or not isinstance(inputs, list):
        raise wrong_rule(name, f'"params" or "inputs" of {value["op"][:40]!r} are none', SCHEMA)
    return operation(value["op"], parameters, [_source(name, source) for source in inputs])


def _require_known(name: str, value: dict[str, Any], keys: set[str], what: str) -> None:
    """Raise `RecordError` for a key that would be ignored, such as a misspelt one."""
    unknown = sorted(value.keys() - keys)
    if unknown:
        raise wrong_rule(name, f"{unknown[0][:40]!r} is no part of {what}", SCHEMA)


def _source(name: str, value: Any) -> Source:
    """Return what `["in", leaf]`, `["op", place, output]` or `[place, output]` refers to."""
    if isinstance(value, list) and value:
        kind, numbers = value[0], value[1:]
        if kind not in ("in", "op"):
            kind, numbers = "op", value
        if all(type(number) is int for number in numbers):
            if kind == "in" and len(numbers) == 1:
                return Leaf(numbers[0])
            if kind == "op" and len(numbers) == 2:
                return Port(*numbers)
    raise wrong_rule(name, f"{str(value)[:40]} refers to nothing", SCHEMA)
