"""Graphs of operators: building, running and joining them, with nodes that no program stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.errors import ShapeError
from einalg.frontends.constant_folding import fold_constants
from einalg.frontends.graph import Graph, OpaqueNode, ProgramNode, live_statements, unique_name
from einalg.frontends.graph_builder import GraphBuilder
from einalg.language import ops
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, in_double

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def doubled(array: Any) -> list[Any]:
    return [2 * array]


def chain() -> GraphBuilder:
    """`y = 2·relu(x + w)`, doubled outside the language, plus `x`."""
    b = GraphBuilder()
    b.input("x", (2, 3), "f32")
    b.weight("w", np.full((3,), -2, np.float32))
    b.express("Add", ("x", "w"), ("sum",), ops.add)
    b.express("Relu", ("sum",), ("relu",), ops.relu)
    b.call("Double", ("relu",), {"twice": ((2, 3), "f32")}, doubled, "a test")
    b.express("Add", ("twice", "x"), ("y",), ops.add)
    return b


def expected(x: Any) -> Any:
    return 2 * np.maximum(x - 2, 0) + x


def test_values_and_order() -> None:
    graph = chain().graph(["y", "relu"])
    assert [t.name for t in graph.inputs] == ["x"] and list(graph.weights) == ["w"]
    assert [type(node) for node in graph.nodes] == [
        ProgramNode,
        ProgramNode,
        OpaqueNode,
        ProgramNode,
    ]
    assert [node.why for node in graph.opaque] == ["a test"]
    y, relu = graph(X)
    np.testing.assert_array_equal(y, expected(X))
    np.testing.assert_array_equal(relu, np.maximum(X - 2, 0))


def of_weights(is_repeatable: bool, call: Any = doubled) -> Graph:
    """`y = x + 2·relu(w)`, doubled outside the language."""
    b = GraphBuilder()
    b.input("x", (2, 3), "f32")
    b.weight("w", np.array([-1, 0, 2], np.float32))
    b.express("Relu", ("w",), ("relu",), ops.relu)
    b.call("Double", ("relu",), {"twice": ((3,), "f32")}, call, "a test", is_repeatable)
    b.express("Add", ("x", "twice"), ("y",), ops.add)
    return b.graph(["y", "twice"])


def test_a_wrong_number_of_inputs_is_refused() -> None:
    b = GraphBuilder()
    b.weight("w", np.array([-1, 0, 2], np.float32))
    b.express("Relu", ("w",), ("relu",), ops.relu)
    with pytest.raises(ShapeError, match="0 inputs are expected, not 1\n  give none"):
        b.graph(["relu"])(X)
    with pytest.raises(ShapeError, match="1 inputs are expected, not 2\n  give x"):
        of_weights(True)(X, X)


def test_settled_calls_ahead_what_reads_weights_alone() -> None:
    times = []
    graph = fold_constants(of_weights(True, lambda a: [times.append(1) or 2 * a]))
    assert times == [1] and not graph.opaque and graph.weights["twice"].tolist() == [0, 0, 4]
    for run in (graph, graph.merged()):
        y, twice = run(X)
        assert y.tolist() == np.add(X, [0, 0, 4]).tolist() and twice.tolist() == [0, 0, 4]
    (node,) = graph.merged().nodes
    assert isinstance(node, ProgramNode) and node.program.inputs["twice"].role == "weight"
    assert times == [1]


def failing(array: Any) -> Any:
    raise RuntimeError("no memory")


@pytest.mark.parametrize(
    ("is_repeatable", "call"),
    [(False, doubled), (True, failing), (True, lambda a: [[a]]), (True, lambda a: [a, a])],
)
def test_settled_leaves_calls_that_are_random_or_fail_or_give_no_array(
    is_repeatable: bool, call: Any
) -> None:
    graph = of_weights(is_repeatable, call)
    assert fold_constants(graph) is graph


def test_settled_leaves_what_reads_an_input() -> None:
    graph = chain().graph(["y"])
    assert fold_constants(graph) is graph


def test_settled_keeps_no_large_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("einalg.frontends.constant_folding.MAX_FOLDED_ELEMENTS", 2)
    graph = of_weights(True)
    assert fold_constants(graph) is graph


def test_joined_is_one_program_between_calls() -> None:
    joined = chain().graph(["y"]).merged()
    assert [node.operator for node in joined.nodes] == ["Add+Relu", "Double", "Add"]
    assert joined.nodes[0].outputs == ("relu",) and set(joined.nodes[0].inputs) == {"x", "w"}
    np.testing.assert_array_equal(joined(X)[0], expected(X))


def test_joined_leaves_out_what_nobody_reads() -> None:
    b = chain()
    b.express("Exp", ("x",), ("unread",), ops.exp)
    b.call("Double", ("unread",), {"unread_too": None}, doubled, "a test")
    joined = b.graph(["relu"]).merged()
    assert [node.operator for node in joined.nodes] == ["Add+Relu"]
    assert joined.nodes[0].program.names == ("sum", "relu")


def test_joined_keeps_what_is_read_later_and_what_is_given() -> None:
    b = chain()
    b.express("Mul", ("sum", "y"), ("z",), ops.mul)
    joined = b.graph(["z", "sum"]).merged()
    assert [set(node.outputs) for node in joined.nodes] == [{"sum", "relu"}, {"twice"}, {"z"}]
    z, total = joined(X)
    np.testing.assert_array_equal(z, (X - 2) * expected(X))
    np.testing.assert_array_equal(total, X - 2)


def test_inputs_and_weights_can_be_outputs() -> None:
    graph = chain().graph(["w", "x", "x"])
    assert all(
        graph.merged()(X)[k] is graph(X)[k] or np.array_equal(graph.merged()(X)[k], graph(X)[k])
        for k in range(3)
    )
    np.testing.assert_array_equal(graph(X)[1], X)
    assert not graph.merged().nodes


def test_operators_of_several_outputs() -> None:
    b = GraphBuilder()
    b.input("x", (5, 2), "f32")
    b.express("Split", ("x",), ("first", "second"), lambda x: ops.split(x, (2, 3)))
    b.express(
        "Cell",
        ("first",),
        ("s", "m"),
        lambda x: Program([("T", ops.exp(x)), ("s", ops.sum(x)), ("m", ops.max(x))], ("s", "m")),
    )
    array = np.arange(10, dtype=np.float32).reshape(5, 2)
    second, s, m = b.graph(["second", "s", "m"]).merged()(array)
    np.testing.assert_array_equal(second, array[2:])
    assert (float(s), float(m)) == (6, 3)


def test_inner_statements_get_names_of_their_own() -> None:
    b = GraphBuilder()
    b.input("T", (2,), "f32")

    def twice(x: Any) -> Program:
        T = ea.tensor("U", (2,), role="intermediate")
        i = ea.indices("i")
        return Program([("U", ops.add(x, 1)), ("V", ea.L[i:2](T[i] * T[i]))])

    b.express("Square", ("T",), ("a",), twice)
    b.express("Square", ("a",), ("U",), twice)
    graph = b.graph(["U"])
    assert len(graph.merged().nodes) == 1
    np.testing.assert_array_equal(graph.merged()(np.array([1.0, 2.0]))[0], [25, 100])


def test_nothing_is_added_where_no_expression_can_be_built() -> None:
    b = chain()
    with pytest.raises(ShapeError):
        b.express("MatMul", ("x", "x"), ("bad",), ops.matmul)
    assert "bad" not in b.values and len(b.graph(["y"]).nodes) == 4


def test_shapes_known_at_run_time_only() -> None:
    b = GraphBuilder()
    b.input("x", (4,), "f32")
    b.call(
        "NonZero",
        ("x",),
        {"places": None},
        lambda x: [np.flatnonzero(x)],
        "its shape depends on values",
    )
    with pytest.raises(ShapeError, match="places is known at run time only"):
        b.express("Neg", ("places",), ("n",), ops.neg)
    np.testing.assert_array_equal(b.graph(["places"])(np.array([0, 1, 0, 2]))[0], [1, 3])


@pytest.mark.parametrize("arrays", [(), (X, X), (X[:1],)])
def test_inputs_that_do_not_fit(arrays: tuple[Any, ...]) -> None:
    with pytest.raises(ShapeError, match="x"):
        chain().graph(["y"])(*arrays)


def test_needed_keeps_the_order() -> None:
    x = ea.tensor("x", (2,))
    statements = [
        ("a", ops.exp(x)),
        ("b", ops.neg(x)),
        ("c", ops.add(ea.tensor("a", (2,), role="intermediate"), x)),
    ]
    assert [name for name, _ in live_statements(statements, ["c"])] == ["a", "c"]


@pytest.mark.parametrize(
    "name, found",
    [
        ("a.b/c:0", "a_b_c_0"),
        ("0.weight", "v_0_weight"),
        ("lambda", "v_lambda"),
        ("...", "value"),
        ("größe", "gr_e"),
    ],
)
def test_names_for_tensors(name: str, found: str) -> None:
    assert unique_name(name, ()) == found
    ea.tensor(found, (1,))


@given(st.lists(st.text(max_size=4), max_size=12))
def test_names_are_distinct(names: list[str]) -> None:
    taken: dict[str, Any] = {}
    for name in names:
        word = unique_name(name, taken)
        assert word not in taken
        taken[word] = ea.tensor(word, (1,))


def test_values_that_are_too_large_for_their_type_are_infinite() -> None:
    """Without a warning of NumPy: a program may be computed in a longer type."""
    b = GraphBuilder()
    b.input("x", (2,), "f32")
    b.express("Exp", ("x",), ("y",), ops.exp)
    (found,) = b.graph(["y"]).run(
        [np.array([0, 100], np.float32)], lambda program, known: execute(in_double(program), known)
    )
    np.testing.assert_array_equal(found, np.array([1, np.inf], np.float32))


@given(st.data())
def test_random_graphs_join_to_the_same_values(data: st.DataObject) -> None:
    """Any mixture of expressed and opaque nodes, in any order of reading."""
    b = GraphBuilder()
    b.input("x", (3,), "f64")
    b.weight("w", np.array([1.0, -2.0, 3.0]))
    names = ["x", "w"]
    for k in range(data.draw(st.integers(1, 8))):
        one, two = (data.draw(st.sampled_from(names)) for _ in range(2))
        name = f"n{k}"
        if data.draw(st.booleans()):
            b.express("Op", (one, two), (name,), lambda p, q, k=k: ops.add(ops.mul(p, k + 1), q))
        else:
            b.call("Call", (one, two), {name: ((3,), "f64")}, lambda p, q: [p - q], "a test")
        names.append(name)
    outputs = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    graph, array = b.graph(outputs), np.array([0.5, 1.5, -1.0])
    joined = graph.merged()
    assert len(joined.nodes) <= len(graph.nodes)
    for found, wanted in zip(joined(array), graph(array)):
        np.testing.assert_allclose(found, wanted)
    assert isinstance(joined, Graph) and not _neighbours(joined)


def _neighbours(graph: Graph) -> list[Any]:
    """Programs that follow one another without a call between: they ought to be one."""
    return [
        (p, q)
        for p, q in zip(graph.nodes, graph.nodes[1:])
        if isinstance(p, ProgramNode) and isinstance(q, ProgramNode)
    ]
