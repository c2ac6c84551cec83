"""Generated rules: which there are, that they hold, and what follows from them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import einalg as ea
from derive.programs.forms.rewriting.matching import matches
from derive.programs.forms.rewriting.patterns import patterns_of
from derive.programs.forms.rewriting.replacement import replaced
from derive.substitutions.generation import judging, rules
from derive.substitutions.generation.checkpoint import VerdictFile
from derive.substitutions.generation.generator import searched
from derive.substitutions.generation.programs.fingerprinting import Fingerprints
from derive.substitutions.generation.programs.growing import SpaceGrowth
from derive.substitutions.generation.programs.operators import operators_of
from derive.substitutions.generation.programs.space import ProgramSpace
from derive.substitutions.generation.rewriting import LeafRequirement
from einalg.errors import RecordError, UseError
from einalg.runtime.clock import Clock, check_time

generate = ea.substitutions.generate
PLAIN = ("conv2d", {"stride": [(1, 1)], "pad": ["same"], "act": ["none"]})
CONVOLUTION = [(1, 2, 3, 3), (2, 2, 1, 1), (2, 2, 1, 1)]


def test_small_rules_are_found() -> None:
    found = generate(["relu", "add", "matmul", "transpose"], size=2)
    texts = "\n".join(found.texts)
    for expected in (
        "ewadd(x1, x2) => ewadd(x2, x1)",
        "relu(relu(x1)) => relu(x1)",
        "matmul(matmul(x1, x2), x3) => matmul(x1, matmul(x2, x3))",
        "transpose(transpose(x1, perm=(1, 0)), perm=(1, 0)) => x1",
    ):
        assert expected in texts
    assert all(ea.substitutions.verify(rule) for rule in found)
    assert not found.refused and found.report.is_complete


def test_inputs_of_one_element_without_an_axis() -> None:
    found = generate(["add", "relu"], inputs={"x": (), "y": ()}, size=1)
    assert [verdict.verdict for verdict in found.verdicts] == ["proved"]


def test_counts_add_up() -> None:
    report = generate(["relu", "add", "concat", "split"], size=2).report
    for size in report.sizes:
        assert size.enumerated == size.distinct + size.candidates
        assert size.candidates >= size.after_renaming >= size.after_common_parts
        assert size.after_common_parts >= size.after_derivable == size.proved + size.refused
    assert report.total("proved") > 4 and "size  programs" in str(report)


def test_an_operator_that_takes_none_of_the_inputs_is_told() -> None:
    report = generate([("concat", {"axis": [5, 0]}), "relu"], size=1).report
    assert report.unused == ("concat(axis=5)",)
    assert "concat(axis=5) takes none of the inputs" in str(report)


def test_a_matrix_of_one_side_only() -> None:
    found = generate(["relu", "const_imm"], inputs=[(2, 4), (4, 4)], size=1)
    assert not found.texts and not found.report.unused


def test_conditions_are_inferred() -> None:
    found = generate([PLAIN, ("concat", {"axis": [1, 0]})], CONVOLUTION, size=2)
    conditions = {verdict.condition_text for verdict in found.verdicts}
    assert "one group" in conditions
    assert found.report.total("under_conditions") == sum(
        verdict.condition is not None for verdict in found.verdicts
    )


def first_row(x: Any) -> Any:
    i, j = ea.indices("i j")
    return ea.L[i : x.shape[0], j : x.shape[1]](x[0, j])


def test_what_is_equal_at_the_sizes_of_the_inputs_only_is_no_rule_of_others() -> None:
    """With one row, the first one is all of them: that is proved for one row."""
    (rule,) = generate([first_row], {"x": (1, "M")}, size=1)
    assert rule.before.at(M=5).outputs and rule.before["O1"].shape[0] == 1
    assert len(generate([first_row], {"x": (2, "M")}, size=1)) == 0


def test_rules_of_rows_of_one_sign_are_told_from_others() -> None:
    """Of few rows of random elements, each has a positive one: its largest is then never below
    0.
    """
    found = generate(["relu", ("max", {"axes": [1]})], {"x": ("N", "M")}, size=2)
    assert "max(relu(x1), axes=1) => relu(max(x1, axes=1))" in found.texts
    assert not found.refused


def test_a_convolution_has_its_stride() -> None:
    strided = ("conv2d", {"stride": [(1, 1), (2, 2)], "pad": ["same"], "act": ["none"]})
    places = {"starts": [(0, 0)], "stops": [(3, 3)], "axes": [(2, 3)], "steps": [(2, 2)]}
    found = generate([strided, ("slice", places)], [(1, 2, 3, 3), (2, 2, 1, 1)], size=2, outputs=1)
    assert any(
        text.startswith("slice(conv2d(x1, x2, pad=same, stride=(1, 1))")
        and "=> conv2d(x1, x2, pad=same, stride=(2, 2))" in text
        for text in found.texts
    )


def test_a_parameter_that_a_function_has_not_is_refused() -> None:
    with pytest.raises(UseError, match="pad has no parameter 'padding'\n  it has x, amounts"):
        generate([("pad", {"padding": [((1, 1), (0, 0))]})], size=1)


def test_functions_are_proved_for_all_sizes(tmp_path: Path) -> None:
    def double(x: Any) -> Any:
        return ea.ops.add(x, x)

    operators = [double, ("concat", {"axis": [0]}), ("softmax", {"axis": [1]})]
    found = generate(operators, {"x": ("N", "M"), "y": ("N", "M")}, size=2)
    assert "concat(double(x1), double(x1), axis=0) => double(concat(x1, x1, axis=0))" in found.texts
    assert all(rule.before.sizes for rule in found)
    found.save(tmp_path / "rules.json")
    loaded = ea.substitutions.load(tmp_path / "rules.json")
    assert [rule.name for rule in loaded] == [rule.name for rule in found]
    assert all(ea.substitutions.verify(rule) for rule in loaded)


def test_a_rule_of_all_sizes_is_one_whatever_they_are_called() -> None:
    """Rules of inputs that have one size twice follow from those that have two."""
    operators = ["attention", ("flip", {"axes": [1]})]
    shapes = {"q": ("N", "K"), "k": ("M", "K"), "v": ("M", "D")}
    found = generate(operators, shapes, size=2, outputs=1)
    assert len(set(found.texts)) == len(found.texts)
    assert (
        "attention(flip(x1, axes=1), x2, x3) => attention(x1, flip(x2, axes=1), x3)" in found.texts
    )
    square = generate(operators, {**shapes, "x": ("N", "N")}, size=2, outputs=1)
    assert set(square.texts) == set(found.texts)


def test_sizes_within_bounds_are_those_of_a_rule() -> None:
    requirement = LeafRequirement(2, ((0, ea.size("N", at_least=2)), (1, 3)))
    assert requirement.is_met((4, 3), {})
    assert not requirement.is_met((1, 3), {}) and not requirement.is_met((4, 4), {})
    assert not requirement.is_met((4, 3), {ea.size("N", at_least=2): 5})


def test_saved_rules_have_the_same_verdicts(tmp_path: Path) -> None:
    found = generate([PLAIN, "relu", ("concat", {"axis": [0]})], CONVOLUTION, size=2)
    found.save(tmp_path / "rules.json")
    verdicts = [ea.substitutions.verify(r) for r in ea.substitutions.load(tmp_path / "rules.json")]
    assert [str(verdict) for verdict in verdicts] == [str(verdict) for verdict in found.verdicts]
    with pytest.raises(RecordError, match="make the folder first"):
        found.save(tmp_path / "none" / "rules.json")


def test_an_executor_gives_the_same() -> None:
    operators = ["relu", "add", "mul", "transpose"]
    with ThreadPoolExecutor(2) as executor:
        found = generate(operators, size=2, executor=executor)
    assert found.texts == generate(operators, size=2).texts


def test_verdicts_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "verdicts.json"
    first = generate(["relu", "add", "concat"], size=2, checkpoint=path)
    assert len(VerdictFile(path)) >= len(first)

    def refuse(rules: Any) -> Any:
        raise AssertionError(f"{rules} is proved again")

    monkeypatch.setattr(judging, "verdict_of", refuse)
    second = generate(["relu", "add", "concat"], size=2, checkpoint=path)
    assert (first.texts, list(map(str, first.verdicts))) == (
        second.texts,
        list(map(str, second.verdicts)),
    )


def test_an_end_of_time_leaves_what_is_proved() -> None:
    found = generate(["relu", "add", "matmul"], size=3, seconds=1e-9)
    assert not found.report.is_complete and "the time was over" in str(found)


def test_pairs_are_looked_at_while_there_is_time() -> None:
    search = searched(["relu", JOINED, PARTS], {"x": (2, 4), "y": (2, 4)}, 3, 60.0)
    programs: list[int] = []

    def goes_on(count: int) -> bool:
        programs.append(count)
        return len(programs) < 2

    assert search.is_complete and list(search.joint.pairs(3, lambda _: True))
    assert not list(search.joint.pairs(3, lambda _: False))
    list(search.joint.pairs(3, goes_on))
    assert len(programs) == 2
    search.clock, sizes = Clock.of(0.0), len(search.sizes)
    search._join(SpaceGrowth(0, 0, []), 3)
    assert not search.is_complete and len(search.sizes) == sizes


def test_progress_is_called_with_the_report() -> None:
    reports = []
    found = generate(["relu", "transpose"], size=2, progress=reports.append)
    assert str(reports[-1].sizes) == str(found.report.sizes)


def test_the_seed_does_not_matter() -> None:
    operators = ["relu", "mul", "add"]
    assert generate(operators, size=2, seed=1).texts == generate(operators, size=2, seed=2).texts


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((["no such"],), "there is no operator"),
        (("relu",), "operators must be several"),
        (([],), "there are no operators"),
        (([3],), "is no operator"),
        (([("concat", {"axis": 0})],), "must have a list of values"),
        (([("concat", {"axis": [-1]})],), "has axis = -1"),
        (([lambda x: x, lambda y: y],), "as another operator is"),
        (([ea.ops.relu],), "a function is called relu"),
        ((["relu"], {"x": (0, 2)}), "is no size of an axis"),
        ((["relu"], 5), "inputs must be shapes by name"),
    ],
)
def test_bad_requests_are_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(UseError, match=problem) as raised:
        generate(*arguments)
    assert "\n  " in str(raised.value)


def test_comparisons_are_not_linear() -> None:
    """Of two elements, some random ones are compared as if the comparison were linear."""
    for seed in range(8):
        space = ProgramSpace(operators_of(["greater"], [(1,)]), [(1,)] * 2, seed)
        application = space.application(0, (0, 0))
        assert application is not None
        assert Fingerprints(space).is_affine(application) == (False, False)


def test_results_without_elements_are_no_programs() -> None:
    """Without its first row, a matrix of two rows has one; without that, none."""
    tail = ("slice", {"starts": [(1,)], "stops": [(None,)], "axes": [(0,)]})
    found = generate([tail, "relu"], {"x": (2, 3)}, size=3)
    assert found.report.is_complete and len(found) >= 2


def test_rules_of_some_sizes_say_which() -> None:
    """A row that is turned round is the row itself."""
    top = ("slice", {"starts": [(0,)], "stops": [(1,)], "axes": [(0,)]})
    found = generate([top, ("flip", {"axes": [0]})], {"x": ("N", "M")}, size=2)
    assert "flip(x1, axes=0) => x1 (x1: 1xM)" in found.texts
    assert not any(verdict.condition_text for verdict in found.verdicts)


JOINED = ("concat", {"axis": [1]})
PARTS = ("split", {"axis": [1], "n": [2]})


def test_two_programs_become_parts_of_one() -> None:
    """Two products with one input are the parts of a product with the others joined."""
    inputs = {"x": (2, 4), "v": (4, 4), "w": (4, 4)}
    found = generate(["matmul", "transpose", JOINED, PARTS], inputs, size=3)
    rules = [rule for rule in found if rule.graph is not None and len(rule.graph.outputs) == 2]
    assert len(rules) == 1 and found.report.sizes[-1].outputs == 2
    assert found.texts[-1].startswith("matmul(x1, x2), matmul(x1, x3) => split(matmul(x1, concat(")
    assert ea.substitutions.verify(rules[0])
    program = ea.parse(
        "P[i,j] += A[i,k]*V[k,j]\nQ[i,j] += A[i,k]*W[k,j]\nP, Q", A=(3, 5), V=(5, 2), W=(5, 7)
    )
    (pattern,) = patterns_of(rules[0])
    replacements = [replaced(pattern, match, program) for match in matches(pattern, program)]
    assert any(one is not None and one.is_proved() for one in replacements)


def test_rules_of_one_output_do_without_others() -> None:
    inputs = {"x": (2, 4), "y": (2, 4)}
    one = generate(["relu", JOINED, PARTS], inputs, size=3, outputs=1)
    two = generate(["relu", JOINED, PARTS], inputs, size=3)
    assert two.texts[: len(one)] == one.texts and len(two) == len(one) + 1
    assert {size.outputs for size in one.report.sizes} == {1}


def test_functions_have_rules_of_two_outputs() -> None:
    """The rows of what is computed of all rows, as slices."""

    def both(x: Any, y: Any) -> Any:
        return ea.ops.exp(ea.ops.concat([x, y], axis=0))

    def top(x: Any) -> Any:
        return ea.ops.slice(x, starts=(0,), stops=(2,), axes=(0,))

    def bottom(x: Any) -> Any:
        return ea.ops.slice(x, starts=(2,), stops=(4,), axes=(0,))

    found = generate([both, top, bottom, "exp"], {"x": (2, "M"), "y": (2, "M")}, size=3)
    joint = found[len(found) - 1]
    assert found.texts[-1].startswith("exp(x1), exp(x2) => top(both(x1, x2)), bottom(both(x1, x2))")
    assert len(joint.before.outputs) == 2 and ea.substitutions.verify(joint)


def test_what_differs_at_larger_sizes_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The maximum of a window of a window is that of one window where windows have all elements."""
    pool = ("poolmax", {"kernel": [(3, 3)], "stride": [(1, 1)], "pad": ["same"]})

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a proof is sought")

    monkeypatch.setattr(rules, "verdict_for_all_sizes", refuse)
    found = generate([pool], {"x": (1, 1, 2, 2)}, size=2)
    (text, verdict) = found.refused[0]
    assert text.startswith("poolmax(poolmax(x1") and verdict.verdict == "different"
    assert "x1 is 4x4x4x4" in str(verdict)


def test_laws_of_functions_prove_rules() -> None:
    """The square of relu is the product with what it was applied to, which no relation says."""
    found = generate(["relu", "mul"], {"x": (2, 3), "y": (2, 3)}, size=2)
    assert "ewmul(relu(x1), relu(x1)) => ewmul(x1, relu(x1))" in found.texts


def test_agreement_at_some_sizes_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "verdict_for_all_sizes", lambda name, graph: None)
    found = generate(["relu"], {"x": (2, 3)}, size=2)
    ((text, verdict),) = found.refused
    assert text == "relu(relu(x1)) => relu(x1)"
    assert (verdict.verdict, verdict.coverage) == ("tested", rules.UNDECIDED)


def test_hard_proofs_come_last_and_are_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not decided at one kernel is not tried at others before the easy ones are done."""
    limits: dict[str, list[float]] = {}
    decide = judging.verdict_of

    def slow(some: Any, seconds: float) -> Any:
        graph = some[0].graph
        limits.setdefault(str((graph.before, graph.after)), []).append(seconds)
        if "enlarge" in str(graph) and seconds < 8:
            return 0, rules.undecided_in(seconds)
        return decide(some, seconds)

    enlarge = ("enlarge", {"kernel": [(3, 3)]})
    inputs = [(1, 2, 4, 4), (2, 2, 3, 1), (2, 2, 1, 3)]
    quick = generate([PLAIN, enlarge], inputs, size=2)
    monkeypatch.setattr(judging, "verdict_of", slow)
    found = generate([PLAIN, enlarge], inputs, size=2, seconds=30.0)
    assert sorted(found.texts) == sorted(quick.texts) and found.report.is_complete
    for graph, seconds in limits.items():
        tried, *later = seconds
        assert tried < 8 and set(later) <= ({8.0} if "enlarge" in graph else set())
    assert max(map(len, limits.values())) == 3  # two kernels are tried where one is proved


@pytest.mark.parametrize(("seconds", "limit"), [(60.0, "128"), (1e6, "1e+06")])
def test_what_is_never_decided_is_refused(
    seconds: float, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the time that it was given: all that there is for one pair, if that is much."""
    monkeypatch.setattr(judging, "verdict_of", lambda _, seconds: (0, rules.undecided_in(seconds)))
    found = generate(["relu"], {"x": (2, 3)}, size=2, seconds=seconds)
    ((text, verdict),) = found.refused
    assert text == "relu(relu(x1)) => relu(x1)" and not len(found)
    assert (verdict.verdict, verdict.coverage) == ("unknown", f"not decided in {limit} s")
    report = found.report
    assert report.is_complete and report.total("after_derivable") == report.total("refused") == 1


def test_a_proof_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(name: str, graph: Any) -> Any:
        while True:
            check_time()

    monkeypatch.setattr(rules, "verdict_for_all_sizes", endless)
    found = generate(["relu"], {"x": (2, 3)}, size=2, seconds=1.0)
    assert not found.report.is_complete and not found.refused and found.report.seconds < 5
