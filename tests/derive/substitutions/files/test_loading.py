"""Rule files: what is read, and a clear error for what is none."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
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
    "misspelt parameters": rule("misspelt", [{**op("relu", 1), "param": {}}], [op("relu", 1)]),
    "more of an output": rule("more", [op("relu", 1)], [op("relu", 1)], {"src": [0, 0], "dst": [0, 0], "of": 1}),
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
    pytest.importorskip("google.protobuf", reason="needs einalg[rules]")
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


def test_a_permutation_of_protobuf_is_a_number(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="needs einalg[rules]")
    collection = _collection_class()()
    added = collection.rule.add()
    for number in (15, 5):  # (1, 2, 0) and (0, 1, 2), to the base of 3
        one = added.srcOp.add(type=15)
        one.input.add(opId=len(added.srcOp) - 2, tsId=0)
        one.para.add(key=12, value=number)
    last = added.dstOp.add(type=15)
    last.input.add(opId=-1, tsId=0)
    last.para.add(key=12, value=15)
    added.mappedOutput.add(srcOpId=1, dstOpId=0, srcTsId=0, dstTsId=0)
    path = tmp_path / "rules.pb"
    path.write_bytes(collection.SerializeToString())
    (one,) = ea.substitutions.load(path)
    assert [dict(operation.parameters)["perm"] for operation in one.graph.before] == [
        (1, 2, 0),
        (0, 1, 2),
    ]
    assert ea.substitutions.verify(one)
    last.para[0].value = 3
    path.write_bytes(collection.SerializeToString())
    with pytest.raises(ea.RecordError, match="parameter 3 is no permutation"):
        ea.substitutions.load(path)


EQUATIONS = """# comments
(conv2d 1 1 0 2 ?input_7 ?input_10)=>(relu (conv2d 1 1 0 0 ?input_7 ?input_10))

(matmul 0 ?input_1 ?input_4)=>(split_0 (split 1 (matmul 0 ?input_1 (concat 1 2 ?input_4 ?b))))
(matmul 0 ?input_1 ?b)=>(split_1 (split 1 (matmul 0 ?input_1 (concat 1 2 ?input_4 ?b))))
(transpose (transpose ?x 1_0 0) 1_0 0) => ?x
(poolavg 3 3 1 1 0 ?x)=>(conv2d 1 1 0 0 ?x (Cpool 3 3))
(matmul ?x (Imatmul))=>?x
"""
CALLS = (
    "conv2d(1,1,0,2,x,w)==relu(conv2d(1,1,0,0,x,w))scalar_mul(matmul(a,b),c)==matmul("
    "scalar_mul(a,c),b)pool2d_avg(3,3,1,1,0,x)==conv2d(1,1,0,0,x,const_pool(3,3))"
    "concat(0, transpose(a), transpose(b)) == transpose(concat(1, a, b))"
)


def loaded(folder: Path, text: str) -> list[Any]:
    path = folder / "rules.txt"
    path.write_text(text)
    return list(ea.substitutions.load(path))


def test_equations_of_egg(tmp_path: Path) -> None:
    rules = loaded(tmp_path, EQUATIONS)
    assert [len(one.graph.outputs) for one in rules] == [1, 2, 1, 1, 1]
    window = {"stride": [1, 1], "pad": "same"}
    relu = [op("conv2d", 1, 2, act="none", **window), op("relu", "0")]
    wanted = rule("conv", [op("conv2d", 1, 2, act="relu", **window)], relu)
    (same,) = ea.substitutions.load(write(tmp_path, wanted))
    assert rules[0].graph == same.graph
    assert all(ea.substitutions.verify(one) for one in rules)


@pytest.mark.parametrize(
    "before", ["", "(relu ?x)=>(ewadd ?x ?y)\n", "(relu ?x)=>?z (relu ?a)=>?a\n"]
)
def test_an_equation_that_reads_too_much_joins_no_others(before: str, tmp_path: Path) -> None:
    pair = "\n".join(EQUATIONS.splitlines()[3:5])
    rules = loaded(tmp_path, before + pair)
    assert [len(one.graph.outputs) for one in rules] == [*[1] * before.count("=>"), 2]


def test_equations_of_calls(tmp_path: Path) -> None:
    rules = loaded(tmp_path, CALLS)
    assert len(rules) == 4
    assert all(ea.substitutions.verify(one) for one in rules)
    assert rules[0].graph == loaded(tmp_path, EQUATIONS)[0].graph


def test_sizes_that_are_parts_of_themselves(tmp_path: Path) -> None:
    """A window of stride 2 has as many positions as there are only where there are few."""
    (one,) = loaded(tmp_path, "(poolavg 3 3 2 2 0 ?a)=>(relu ?a)")
    assert not ea.substitutions.verify(one)
    assert repr(one)


def test_equations_that_are_wrong_are_told_from_right_ones(tmp_path: Path) -> None:
    (one,) = loaded(tmp_path, "(matmul 0 ?a ?b)=>(matmul 0 ?b ?a)")
    verdict = ea.substitutions.verify(one)
    assert verdict.condition_text == "x1_0 = 1 and x1_1 = 1"
    assert "different where x1 is 2x2, x2 is 2x2, where" in str(verdict)


@pytest.mark.parametrize(
    "text",
    [
        "(relu ?a)=>",
        "(relu ?a)=>(relu ?a",
        "(relu ?a)=>(relu ?a))",
        "(relu ?a) (relu ?a)=>(relu ?a)",
        "(fft ?a)=>(relu ?a)",
        "(relu ?a)=>(relu 3 ?a)",
        "(concat ?a ?b)=>(concat 0 ?a ?b)",
        "(split_5 (split 0 ?a))=>?a",
        "(split_0 (relu ?a))=>?a",
        "(conv2d 1 1 7 0 ?a ?b)=>(conv2d 1 1 0 0 ?a ?b)",
        "(conv2d 1_1 1 0 0 ?a ?b)=>(conv2d 1 1 0 0 ?a ?b)",
        "(concat 99999999999999999999 ?a ?b)=>?a",
        "(transpose ?a 2_0 0)=>?a",
        "relu(a b)==relu(a)",
        "(" * 5000 + "=>",
        "(relu " * 100 + "?a" + ")" * 100 + "=>?a",
        "=>",
        "# nothing => here",
    ],
)
def test_bad_equations(text: str, tmp_path: Path) -> None:
    with pytest.raises(ea.RecordError) as caught:
        loaded(tmp_path, text)
    assert caught.value.message.splitlines()[-1].startswith("  ")


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
    seeds += [EQUATIONS.encode(), CALLS.encode()]
    refused = 0
    path = folder / "mutated"
    for k in range(number):
        content = mutated(seeds[k % len(seeds)], chance)
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


JUNK: list[Any] = [
    None, True, 0, -1, 2, 10**6, 2**31, 10**30, 0.5, float("nan"), float("inf"), "", "in", "op", "N",
    "x" * 300, "relu", "conv2d", [], {}, [0, 0], ["in", 1], ["op", 99, 0], [[1]], [{}], {"a": 1},
    {"op": "relu"}, [None], "O[i] = A[i]", [10**9] * 4,
]  # fmt: skip
KEYS = ["op", "params", "inputs", "src", "dst", "outputs", "kernel", "pad", "act", "axis", "before"]
SPLIT = rule(
    "split", [op("concat", 1, 2, axis=1), op("split", "0", axis=1, n=2)], [],
    {"src": [1, 1], "dst": ["in", 2]},
)  # fmt: skip


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the containers inside a value, each with a key of it."""
    if isinstance(value, (dict, list)):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            yield from _places(value[key])


def with_changes(content: Any, chance: random.Random) -> Any:
    """Return a content with another value, key or type in a few places, or with a part of it in
    another place.
    """
    changed = deepcopy(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(changed))
        if not places:
            break
        container, key = chance.choice(places)
        kind = chance.randrange(6)
        if kind < 3:
            container[key] = deepcopy(chance.choice(JUNK))
        elif kind == 3:
            del container[key]
        elif kind == 4 and isinstance(container, dict):
            container[chance.choice(KEYS)] = container.pop(key)
        else:
            other, place = chance.choice(places)
            container[key] = deepcopy(other[place])
    return changed


def check_changed(folder: Path, number: int) -> None:
    chance = random.Random(1)
    seeds: list[Any] = [
        {"sets": {"set": {"leaf_shapes": {"1": [2, 4]}, "rules": [GOOD, GROUPED, SPLIT]}}},
        {"rules": [TEXTS]},
    ]
    refused = 0
    path = folder / "changed.json"
    for k in range(number):
        content = json.dumps(with_changes(seeds[k % len(seeds)], chance))
        path.write_text(content)
        try:
            for one in ea.substitutions.load(path):
                assert repr(one)
        except EinalgError as error:
            refused += 1
            assert isinstance(error, ea.RecordError), error
            assert error.message.splitlines()[-1].startswith("  ")
        assert path.read_text() == content
    assert number // 4 < refused < number


def test_files_of_another_structure(tmp_path: Path) -> None:
    check_changed(tmp_path, 300)


@pytest.mark.nightly
def test_many_files_of_another_structure(tmp_path: Path) -> None:
    check_changed(tmp_path, 10_000)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"where": "N > 1"}, "'where' is no part of a rule of texts"),
        ({"shapes": {"a": "N"}}, "the shape of 'a' is no list"),
        ({"sizes": {"M": {"at_least": 2}}}, "neither side has the size 'M'"),
    ],
)
def test_parts_of_texts_that_mean_nothing(
    part: dict[str, Any], message: str, tmp_path: Path
) -> None:
    texts = {"before": "O[i] = a[i]", "after": "O[i] = a[i]", "shapes": {"a": ["N"]}}
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"rules": [texts]}))
    assert len(ea.substitutions.load(path)) == 1
    path.write_text(json.dumps({"rules": [{**texts, **part}]}))
    with pytest.raises(ea.RecordError, match=message):
        ea.substitutions.load(path)


def test_a_size_of_a_range_has_its_bounds(tmp_path: Path) -> None:
    texts = {"before": "O[i:N] = a[0]", "after": "O[i:N] = a[0]", "shapes": {"a": [1]}}
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"rules": [{**texts, "sizes": {"N": {"multiple_of": 4}}}]}))
    (one,) = ea.substitutions.load(path)
    assert one.before.sizes["N"].multiple_of == 4
