"""Rule files: what is read, and a clear error for what is none."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from derive.substitutions.files.protobuf_file import _collection_class
from einalg.errors import EinalgError
from tests.helpers.rule_files import conv, op, rule, write

SCHEMA = Path(ea.__file__).parents[1] / "derive" / "substitutions" / "files" / "rules.schema.json"
GOOD = rule("good", [op("ewadd", 1, 2), op("relu", "0")], [op("ewadd", 2, 1), op("relu", "0")])
GROUPED = rule("conv", [conv(1, 2, "relu")], [conv(1, 2), op("relu", "0")])
TEXTS = {
    "name": "texts",
    "before": "O[i] += A[i,k]",
    "after": "O[i] += A[i,K-1-k]",
    "shapes": {"A": [4, "K"]},
    "sizes": {"K": {"at_least": 2}},
}
CYCLE = rule("circle", [op("relu", "1"), op("relu", "0")], [op("relu", 1)])
BAD: dict[str, Any] = {
    "no JSON": "{",
    "a list": "[]",
    "no rules": "{}",
    "not one rule": '{"rules": []}',
    "not one rule of a set": '{"sets": {"set": {"rules": []}}}',
    "rules of another kind": '{"rules": 3}',
    "a rule of another kind": '{"rules": [3]}',
    "sets of another kind": '{"sets": []}',
    "deep": '{"rules": ' + "[" * 100_000,
    "vast number": '{"rules": [' + "9" * 5000 + "]}",
    "circle": CYCLE,
    "unknown operator": rule("unknown", [op("fft", 1)], [op("relu", 1)]),
    "missing output": rule("missing", [op("relu", 1)], [op("relu", 1)], {"src": [0, 7], "dst": [0, 0]}),
    "no outputs": {**GOOD, "outputs": []},
    "parameter of another operator": rule("parts", [op("relu", 1, n=3)], [op("relu", 1)]),
    "parameter of no kind": rule("kind", [op("ewadd", 1, 2, perm=3)], [op("ewadd", 2, 1)]),
    "vast kernel": rule("vast", [conv(1, 2, kernel=[10**9, 3])], [conv(1, 2)]),
    "vast axis": rule("axis", [op("concat", 1, 2, axis=10**6)], [op("concat", 1, 2, axis=1)]),
    "too few inputs": rule("few", [op("matmul", 1)], [op("matmul", 1, 2)]),
    "ranks": rule("ranks", [op("matmul", 1, 2), op("transpose", "0", perm=[0, 2, 1])], [op("relu", 1)]),
    "notation": {**TEXTS, "after": "O[i] = A[i"},
    "shapes": {**TEXTS, "shapes": {"A": 4}},
}  # fmt: skip


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps({"rules": [content]})


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text_of(BAD[name]))
    with pytest.raises(ea.RecordError) as caught:
        ea.substitutions.load(path)
    assert caught.value.message.splitlines()[-1].startswith("  ")


def test_files_that_are_missing() -> None:
    for path in ("no such file", 3, None, "a\0b"):
        with pytest.raises(ea.RecordError):
            ea.substitutions.load(path)


def test_names_and_programs(tmp_path: Path) -> None:
    good, grouped, texts = ea.substitutions.load(write(tmp_path, GOOD, GROUPED, TEXTS))
    assert [good.name, grouped.name, texts.name] == ["set/good", "set/conv", "set/texts"]
    assert grouped.before.outputs == ("O1",) and list(grouped.after.inputs) == ["x1", "x2"]
    assert texts.before.sizes["K"].at_least == 2
    assert ea.substitutions.verify(texts)


def test_the_schema_describes_the_files(tmp_path: Path) -> None:
    import jsonschema  # takes two seconds: not in every worker

    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(json.loads(write(tmp_path, GOOD, GROUPED, TEXTS).read_text()), schema)
    jsonschema.validate({"rules": [GOOD]}, schema)
    for wrong in (
        {},
        {"rules": 3},
        {"rules": [{"src": []}]},
        {"rules": [{"before": "O[i] = A[i]"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def protobuf_rule() -> bytes:
    pytest.importorskip("google.protobuf")
    collection = _collection_class()()
    added = collection.rule.add()
    for operators, activation in ((added.srcOp, 2), (added.dstOp, 0)):
        one = operators.add(type=3)
        one.input.add(opId=-1, tsId=0)
        one.input.add(opId=-2, tsId=0)
        for key, value in ((4, 3), (5, 3), (6, 1), (7, 1), (8, 0), (9, activation)):
            one.para.add(key=key, value=value)
    relu = added.dstOp.add(type=8)
    relu.input.add(opId=0, tsId=0)
    added.mappedOutput.add(srcOpId=0, dstOpId=1, srcTsId=0, dstTsId=0)
    return collection.SerializeToString()


def test_protobuf(tmp_path: Path) -> None:
    path = tmp_path / "rules.pb"
    path.write_bytes(protobuf_rule())
    (one,) = ea.substitutions.load(path)
    (same,) = ea.substitutions.load(write(tmp_path, GROUPED))
    assert one.name == "0" and one.graph == same.graph
    path.write_bytes(protobuf_rule()[:-3])
    with pytest.raises(ea.RecordError):
        ea.substitutions.load(path)


def mutated(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data))
        kind = chance.randrange(3)
        if kind == 0:
            data[place] = chance.randrange(256)
        elif kind == 1:
            del data[place : place + chance.randint(1, 8)]
        else:
            data[place:place] = data[place : place + chance.randint(1, 8)]
        if not data:
            break
    return bytes(data)


def check_mutated(folder: Path, number: int) -> None:
    chance = random.Random(0)
    seeds = [write(folder, GOOD, GROUPED, TEXTS).read_bytes(), protobuf_rule()]
    refused = 0
    path = folder / "mutated"
    for k in range(number):
        content = mutated(seeds[k % 2], chance)
        path.write_bytes(content)
        try:
            for one in ea.substitutions.load(path):
                assert repr(one)
        except EinalgError as error:
            refused += 1
            assert error.message.splitlines()[-1].startswith("  ")
        assert path.read_bytes() == content
    assert refused > number // 4


def test_mutated_files(tmp_path: Path) -> None:
    check_mutated(tmp_path, 1000)


@pytest.mark.nightly
def test_many_mutated_files(tmp_path: Path) -> None:
    check_mutated(tmp_path, 10_000)
