"""Whole models through the torch front end: everything expressed, one program each, and torch's
values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import einalg as ea  # noqa: E402
from bench.models import MODELS, SMALL, TILED  # noqa: E402
from bench.models.measuring import arrays_of, exact, relative  # noqa: E402
from einalg.errors import ShapeError  # noqa: E402
from einalg.frontends.constant_folding import fold_constants  # noqa: E402
from einalg.frontends.torch import Model, load_model  # noqa: E402
from einalg.frontends.torch.capture.export import export_module  # noqa: E402
from einalg.frontends.torch.capture.recurrent_ops import without_unrolling  # noqa: E402
from einalg.frontends.torch.nodes.opaque_call import flat_results  # noqa: E402
from tests.helpers.torch_graphs import same  # noqa: E402

# shapes of weights, and of what they are applied to, that the figures in the literature name
PUBLISHED = {
    "infogan": [((448, 256, 4, 4), (1, 448, 2, 2))],
    "dcgan": [
        ((512, 256, 4, 4), (1, 512, 4, 4)),
        ((256, 128, 4, 4), (1, 256, 8, 8)),
        ((64, 3, 4, 4), (1, 64, 32, 32)),
    ],
    "fsrcnn": [((56, 1, 9, 9), (1, 56, 32, 32)), ((12, 12, 3, 3), (1, 12, 32, 32))],
    "srcnn": [((1, 32, 5, 5), (1, 32, 224, 224))],
    "csrnet": [((512, 512, 3, 3), (1, 512, 14, 14))],
    "gcn": [((21, 2048, 11, 1), (1, 2048, 7, 7))],
    "mobilenet_v2": [((144, 1, 3, 3), (1, 144, 56, 56)), ((1280, 320, 1, 1), (1, 320, 7, 7))],
    "mobilenet_v3": [((96, 1, 5, 5), (1, 96, 28, 28)), ((576, 96, 1, 1), (1, 96, 7, 7))],
    "efficientnet": [((1152, 1, 5, 5), (1, 1152, 7, 7)), ((1280, 320, 1, 1), (1, 320, 7, 7))],
    "squeezenet": [((256, 64, 3, 3), (1, 64, 13, 13))],
    "resnet50": [((512, 512, 3, 3), (1, 512, 7, 7)), ((2048, 512, 1, 1), (1, 512, 7, 7))],
    "resnext50": [((1024, 32, 3, 3), (1, 1024, 7, 7))],
    "inception": [((192, 128, 7, 1), (1, 128, 17, 17)), ((384, 448, 3, 3), (1, 448, 8, 8))],
    "convnext": [((384, 1, 7, 7), (1, 384, 14, 14)), ((3072, 768), (1, 7, 7, 768))],
    "swin": [((1152, 384), (4, 49, 384)), ((768, 1536), (1, 7, 7, 1536))],
    "vit": [((576, 192), (1, 197, 192))],
    "resnet18": [
        ((64, 3, 7, 7), (1, 3, 224, 224)),
        ((512, 512, 3, 3), (1, 512, 7, 7)),
        ((512, 256, 3, 3), (1, 256, 14, 14)),
    ],
}


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


@pytest.mark.parametrize("name", sorted(SMALL))
def test_small_model(name: str) -> None:
    module, inputs = SMALL[name](2)
    model = load_model(module, inputs)
    folded = fold_constants(model.graph)
    assert not folded.opaque, folded.opaque
    joined = folded.merged()
    assert len(joined.nodes) == 1
    wanted = module(*inputs)
    for run in (model.graph, joined):
        for found, expected in zip(flat(model.function(run)(*inputs)), flat(wanted), strict=True):
            same(found.numpy(), expected, name)


@pytest.mark.nightly
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", sorted(SMALL))
def test_small_model_optimized(name: str, batch: int) -> None:
    """Against the module in double precision, also where torch would go on running it."""
    module, inputs = SMALL[name](batch)
    o = ea.optimize(module, inputs, seconds=2, prefer="einalg")
    assert not o.is_original and not o.opaque
    for found, wanted in zip(arrays_of(o(*inputs)), exact(module, inputs), strict=True):
        assert relative(found, wanted) <= 1e-4


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_shapes_occur(name: str) -> None:
    module, inputs = MODELS[name](1)
    seen: set[Any] = set()
    for part in module.modules():
        if hasattr(part, "weight") and part.weight is not None:
            part.register_forward_hook(
                lambda layer, given, _: seen.add((tuple(layer.weight.shape), tuple(given[0].shape)))
            )
    with torch.device("meta"):
        module.to("meta")(*(x.to("meta") for x in inputs))
    assert set(PUBLISHED[name]) <= seen, seen


def test_same_seed_same_model() -> None:
    (one, x), (two, y) = SMALL["dcgan"](1), SMALL["dcgan"](1)
    assert torch.equal(x[0], y[0]) and torch.equal(one(*x), two(*y))


@pytest.mark.parametrize("rows, width, dilation", [(23, 3, 1), (29, 3, 4), (7, 5, 3), (8, 2, 2)])
def test_tiled_attention_is_banded_attention(rows: int, width: int, dilation: int) -> None:
    sizes = dict(dilation=dilation, rows=rows, heads=2, depth=5, width=width)
    module, inputs = SMALL["longformer_d1"].func(2, **sizes)  # type: ignore[attr-defined]
    tiled, _ = SMALL["longformer_d1"].func(2, **sizes, tiled=True)  # type: ignore[attr-defined]
    same(module(*inputs).numpy(), tiled(*inputs))
    assert set(TILED) <= set(MODELS)


def test_every_model_is_small_too() -> None:
    assert set(MODELS) == set(SMALL)


def loaded(module: Any, *inputs: Any) -> Model:
    return load_model(module.eval(), inputs)


def test_weights_share_memory_with_the_module() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    module[1].weight = module[0].weight  # tied: one weight
    model = loaded(module, torch.ones(2, 3))
    assert sorted(model.graph.weights) == ["v_0_bias", "v_0_weight", "v_1_bias"]
    with torch.no_grad():
        module[0].weight.fill_(0.5)
    np.testing.assert_array_equal(
        model.graph.weights["v_0_weight"], np.full((3, 3), 0.5, np.float32)
    )
    assert all(
        tensor.role == "weight"
        for node in model.graph.nodes
        for tensor in node.program.inputs.values()
        if tensor.name.startswith("v_")
    )


class Nested(torch.nn.Module):
    """Arguments and results that are nested, named, absent, given unchanged, or no tensors."""

    def forward(self, pair: Any, scale: Any = None, *, named: Any) -> Any:
        a, b = pair["a"], pair["b"]
        return {"sum": a + named, "rest": (b, None, 3, (a if scale is None else a * scale, b))}


def test_weights_of_a_recurrent_network_may_have_any_name() -> None:
    """Also those that the states before the first step, and the inputs of a step, could have while
    a cell is written.
    """

    class Cell(torch.nn.Module):
        def forward(self, x: Any, h: Any, begin0: Any, every: Any) -> Any:
            return torch.rnn_tanh(x, h, [begin0, every], False, 1, 0.0, False, False, False)

    inputs = tuple(torch.randn(*shape) for shape in ((3, 2, 5), (1, 2, 5), (5, 5), (5, 5)))
    model = load_model(Cell().eval(), inputs)
    assert not model.graph.opaque
    for found, expected in zip(model.function()(*inputs), Cell()(*inputs)):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_nested_arguments_and_results() -> None:
    a, b, n = torch.randn(2, 3), torch.randn(4), torch.randn(3)
    module = Nested()
    for scale in (None, torch.randn(3)):
        model = load_model(module, ({"a": a, "b": b}, scale), {"named": n})
        found, wanted = (
            model.function()({"a": a, "b": b}, scale, named=n),
            module({"a": a, "b": b}, scale, named=n),
        )
        assert found.keys() == wanted.keys() and found["rest"][1:3] == (None, 3)
        same(found["sum"].numpy(), wanted["sum"])
        same(found["rest"][3][0].numpy(), wanted["rest"][3][0])
        assert found["rest"][0].data_ptr() != found["rest"][3][1].data_ptr() != b.data_ptr()


@pytest.mark.parametrize(
    ("arguments", "keywords", "said"),
    [
        ((), {}, "()"),
        ((1, 2), {}, "(int, int)"),
        (([torch.ones(2)],), {"scale": {"a": None}}, "([Tensor], scale={'a': NoneType})"),
    ],
)
def test_a_call_that_is_not_like_the_example(arguments: Any, keywords: Any, said: str) -> None:
    """Both are told as calls."""
    example = {"a": torch.ones(2), "b": torch.ones(2)}
    call = load_model(Nested(), (example,), {"named": torch.ones(2)}).function()
    with pytest.raises(ShapeError) as raised:
        call(*arguments, **keywords)
    expected = f"the arguments are {said}, and those of the example ({{'a': Tensor, 'b': Tensor}}, named=Tensor)"
    assert str(raised.value) == f"{expected}\n  call it as in the example"


def test_a_tensor_of_another_dtype_is_refused() -> None:
    call = loaded(torch.nn.Linear(3, 4), torch.ones(2, 3)).function()
    for other in (torch.float64, torch.float16, torch.int64):
        with pytest.raises(
            ShapeError,
            match=rf"input input has elements of {other}, not of torch.float32\n  convert it",
        ):
            call(torch.ones(2, 3, dtype=other))


@pytest.mark.parametrize(
    ("arguments", "keywords", "why"),
    [((1, 2), {}, "too many positional"), ((), {}, "'input'"), ((1,), {"other": 2}, "'other'")],
)
def test_examples_that_are_no_arguments_of_the_module(
    arguments: Any, keywords: Any, why: str
) -> None:
    with pytest.raises(ShapeError, match=rf"^Linear takes the arguments \(input\), and .*{why}"):
        load_model(torch.nn.Linear(3, 4), arguments, keywords)


class Mixed(torch.nn.Module):
    """Operators without an expression, places, sizes that depend on data, constants, and what only
    weights decide.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(7, 4)

    def forward(self, x: Any, places: Any) -> Any:
        rows = self.table(places) + self.table(torch.arange(3))
        values, where = torch.max(x, 1)
        mask = torch.ones(4, 4, dtype=torch.bool).tril()
        seen = torch.where(
            mask, rows @ rows.transpose(0, 1) if rows.shape[0] == 4 else x, torch.full_like(x, -1.0)
        )
        return rows, values, where, torch.sort(seen, 1)[0] * 2, torch.nonzero(places)


def test_what_is_not_expressed_is_called() -> None:
    x, places = torch.randn(4, 4), torch.tensor([5, 0, 6])
    model = loaded(Mixed(), x, places)
    assert {o.operator for o in model.graph.opaque} == {
        "embedding.default",
        "sort.default",
        "nonzero.default",
    }
    assert all(o.why for o in model.graph.opaque)
    module = Mixed()
    module.load_state_dict({"table.weight": torch.from_numpy(model.graph.weights["table_weight"])})
    for run in (model.graph, model.graph.merged()):
        for found, wanted in zip(model.function(run)(x, places), module(x, places), strict=True):
            same(found.numpy(), wanted.detach())


class Biased(torch.nn.Module):
    """A table of biases read at places that the module keeps, as in a Swin Transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(9, 4))
        self.register_buffer("places", torch.randint(0, 9, (5, 5)))

    def forward(self, x: Any) -> Any:
        return x + self.table[self.places.view(-1)].view(5, 5, -1).permute(2, 0, 1)


def test_what_is_called_on_weights_alone_is_called_once() -> None:
    module, x = Biased(), torch.randn(2, 4, 5, 5)
    model = loaded(module, x)
    assert [o.operator for o in model.graph.opaque] == ["index.Tensor"]
    assert not fold_constants(model.graph).opaque
    torch.testing.assert_close(
        model.function(fold_constants(model.graph).merged())(x), module(x).detach()
    )


class Prefixed(torch.nn.Module):
    """Tokens before a sequence stay as they are; there may be none."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Any) -> Any:
        return torch.cat([x[:, : self.count], x[:, self.count :] * 2], 1), torch.cat(
            [x.new_zeros(0), x, x[:0]]
        )


@pytest.mark.parametrize("count", [0, 2, 5])
def test_parts_without_elements_are_not_joined(count: int) -> None:
    module, x = Prefixed(count), torch.randn(2, 5, 3)
    model = loaded(module, x)
    assert not model.graph.opaque
    for found, wanted in zip(model.function()(x), module(x), strict=True):
        torch.testing.assert_close(found, wanted)


def test_parts_without_elements_that_decide_the_type_are_joined() -> None:
    class Promoted(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cat([x, torch.zeros(0, 3, dtype=torch.float64)])

    x = torch.randn(2, 3)
    found = loaded(Promoted(), x).function()(x)
    assert found.dtype is torch.float64 and torch.equal(found, x.double())


class LikeWhatIsFound(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        found = x[x > 0]
        return found * 2 + torch.full_like(found, 3.0), torch.zeros_like(found, dtype=torch.int64)


def test_tensors_like_those_whose_shape_depends_on_data() -> None:
    x = torch.tensor([1.0, -2.0, 3.0])
    model = loaded(LikeWhatIsFound(), x)
    for given in (x, torch.tensor([1.0, 1.0, 1.0])):
        for found, wanted in zip(model.function()(given), LikeWhatIsFound()(given), strict=True):
            torch.testing.assert_close(found, wanted)


def test_element_types() -> None:
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sigmoid()).to(dtype)
        x = torch.randn(2, 3, dtype=dtype)
        found = loaded(module, x).function()(x)
        assert found.dtype is dtype
        torch.testing.assert_close(found, module(x).detach())


@pytest.mark.parametrize(
    "module", [torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 3, 2, dropout=0.5)]
)
def test_training_mode_is_refused(module: Any) -> None:
    from einalg.errors import NotationError

    with pytest.raises(NotationError, match=r"training mode|writes to its buffer"):
        load_model(
            module.train(),
            (torch.ones(2, 3) if module._get_name() != "LSTM" else torch.ones(2, 1, 3),),
        )


class Branching(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


def test_what_torch_cannot_export() -> None:
    from einalg.errors import NotationError

    with pytest.raises(
        NotationError, match=r"torch.export has no graph of Branching(.|\n)*backend='einalg'"
    ):
        load_model(Branching(), (torch.ones(3),))


class Chosen(torch.nn.Module):
    """A branch as torch's graphs have them."""

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def test_a_branch_is_left_to_torch() -> None:
    model = loaded(Chosen(), torch.ones(3))
    assert [node.operator for node in model.graph.opaque] == ["cond"]
    for x in (torch.ones(3), -torch.ones(3)):
        assert torch.equal(model.function()(x), 2 * x)


RECURRENT = [
    torch.nn.LSTM(5, 7, 2, bidirectional=True),
    torch.nn.GRU(5, 7, batch_first=True),
    torch.nn.RNN(5, 7, bias=False),
    torch.nn.RNN(5, 7, nonlinearity="relu"),
]


@pytest.mark.parametrize("module", RECURRENT, ids=repr)
def test_a_recurrent_network_is_traced_as_one_operator(module: Any) -> None:
    x = torch.randn(3, 4, 5)
    (node,) = [
        n
        for n in export_module(module.eval(), (x,), {}).graph.nodes
        if n.op == "call_function" and str(n.target).endswith("input")
    ]
    assert str(node.target).startswith("einalg.")
    examples = [tuple(value.shape) for value in node.meta["val"]]
    assert examples == [tuple(value.shape) for value in node.target(*args_of(node, module, x))]
    with torch.no_grad():
        for found, wanted in zip(
            flat_results(load_model(module, (x,)).function()(x)),
            flat_results(module(x)),
            strict=True,
        ):
            same(found.numpy(), wanted)


def args_of(node: Any, module: Any, x: Any) -> list[Any]:
    """The arguments of the operator of a network, its states before the first step zero."""
    _, states, _, *others = node.args
    several = isinstance(states, (list, tuple))
    begin = [
        torch.zeros(tuple(state.meta["val"].shape)) for state in (states if several else [states])
    ]
    return [x, begin if several else begin[0], list(module.parameters()), *others]


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
def test_a_network_with_projections_of_its_states_stays_a_call_of_torch() -> None:
    module, x = torch.nn.LSTM(5, 7, proj_size=3).eval(), torch.randn(4, 2, 5)
    model = load_model(module, (x,))
    assert [node.operator for node in model.graph.opaque] == ["lstm.input"]
    with torch.no_grad():
        for found, wanted in zip(
            flat_results(model.function()(x)), flat_results(module(x)), strict=True
        ):
            same(found.numpy(), wanted)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_packed_sequences_are_left_to_torch(kind: Any) -> None:
    module = kind(5, 7).eval()
    packed = torch.nn.utils.rnn.pack_sequence([torch.randn(length, 5) for length in (4, 2, 1)])
    with torch.no_grad():
        wanted = module(packed)[0].data
        with without_unrolling():
            found = module(packed)[0].data
    assert torch.equal(found, wanted)
