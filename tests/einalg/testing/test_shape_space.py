"""Which shapes go together, found by trying."""

from __future__ import annotations

import pytest

import einalg as ea
from einalg.errors import UseError
from einalg.testing.shape_space import Axis, Family, ShapeSpace, input_order

T = ea.tensor
FAMILIES = {
    "product": (
        lambda a, b: ea.parse("O[i,k] += A[i,j]*B[j,k]", A=a, B=b),
        [(0, 1), (1, 0)],
        (2, 2),
    ),
    "attention": (
        lambda q, k, v: ea.parse("O[i,e] += Q[i,d]*K[j,d]*V[j,e]", Q=q, K=k, V=v),
        [(0, 1), (1, 1)],
        (2, 2, 2),
    ),
    "depthwise": (
        lambda x, k: ea.parse("O[c,h,w] += x.pad(0,1,1)[c,h+r-1,w+s-1]*k[c,r,s]", x=x, k=k),
        [(0, 0), (1, 0)],
        (3, 3),
    ),
    "batches": (
        lambda a, b, c: ea.parse("O[n,i] += A[n,i]*B[n,i]*C[n]", A=a, B=b, C=c),
        [(0, 0), (1, 0), (2, 0)],
        (2, 2, 1),
    ),
    "groups": (
        lambda x=(1, 4, 3, 3), k=(2, 2, 1, 1): ea.ops.conv2d(T("x", x), T("k", k), groups=2),
        [(0, 1), (1, 1)],
        (4, 4),
    ),
    "no padding": (lambda x, k: ea.ops.conv2d(T("x", x), T("k", k)), [(0, 1), (1, 1)], (4, 4)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_axes_that_go_together(name):
    expected, group, ranks = FAMILIES[name]
    family = Family(expected)
    space = ShapeSpace(family, next(family.bases()))
    assert tuple(map(len, space.base)) == ranks
    assert tuple(Axis(*one) for one in group) in space.groups
    pool = space.pool(24, seed=0)
    assert len(pool) > 8 and all(family.program(shapes) is not None for shapes in pool)
    sizes = {size for shapes in pool for shape in shapes for size in shape}
    assert {1, 2, 3, 5} <= sizes


def test_smaller_shapes_come_in_order():
    family = Family(FAMILIES["product"][0])
    space = ShapeSpace(family, next(family.bases()))
    smaller = space.smaller(((3, 2), (2, 1)), most=100)
    assert smaller[0] == ((1, 1), (1, 1)) and smaller[-1] == ((3, 2), (2, 1))
    assert len(smaller) == 6


def test_names_shapes_and_places_say_which_input_is_which():
    text = "O[i] += x[k]*A[i,k]"
    samples = [((2,), (3, 2))]
    assert input_order(Family(lambda p, q: ea.parse(text, x=p, A=q)), samples) == ["x", "A"]
    family = Family(lambda B, A: ea.parse("O[i] = Abs(A[i] - B[i])", A=A, B=B))
    assert input_order(family, [((2,), (2,))]) == ["B", "A"]


def test_shapes_that_never_fit():
    def expected(x, k):
        rows, columns, depth = x
        return ea.parse("O[i] = x[i]", x=(rows * columns * depth,))

    with pytest.raises(UseError) as caught:
        list(Family(expected).bases())
    assert "lambda x=(2, 3), k=(2, 3): …" in f"{caught.value}"
    with pytest.raises(UseError, match="of its defaults"):
        list(Family(lambda x=(2, 3): ea.parse("O[i] = x[i]", x=x)).bases())
