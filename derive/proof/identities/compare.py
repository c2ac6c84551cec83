"""Whether two scopes are equal by the laws of functions (design §9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from derive.proof.exact.compare import compare_exactly
from derive.proof.exact.polynomial import OutsideFragment
from derive.proof.identities.cases import is_zero
from derive.proof.identities.cuts import Array, shared_values
from derive.proof.identities.forms.polynomials.laurent import NoValue, TooLarge, effort
from derive.proof.identities.forms.signs import Knowledge, knowing
from derive.proof.identities.reading import Reader
from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.index.size import is_number
from einalg.language.ir.scope import Scope, all_scopes

BY_LAWS = "laws of functions"
DIVIDING = f"{BY_LAWS}, where no denominator is 0"
MAX_PRODUCTS = 60_000  # of monomials, for one attempt
MAX_STEP_PRODUCTS = 5_000  # the same for values inside
MAX_WHOLE = 16  # scopes of both sides that are compared as a whole
MAX_EXACT_STEPS = 4  # values inside whose relations are compared
MAX_WRITTEN_OUT = 64  # points of a reduction
LIMITS = 0, MAX_WRITTEN_OUT
MAX_POINTS = 100  # of an output that is compared point by point
FAILURES = (TooLarge, NoValue, OutsideFragment, NotationError, RecursionError)
Ranges = Mapping[Index, tuple[int, int]]


@dataclass(frozen=True)
class Identity:
    """What is shown: that both sides are equal, and whether by a division by what may be 0."""

    divides: bool

    @property
    def method(self) -> str:
        """How it is shown, in words."""
        return DIVIDING if self.divides else BY_LAWS


def together(identities: Iterable[Identity]) -> Identity:
    """Return what several identities show that are all needed: any may divide by what may be 0."""
    return Identity(any(identity.divides for identity in identities))


def shown_equal(
    one: Scope, two: Scope, *, values: Mapping[Scope, Array] | None = None
) -> Identity | None:
    """Return that two scopes of one shape are equal by laws of functions, at all sizes at which
    both have a meaning; None where this is not shown. `values` are those of all scopes at one
    input, where they are known.
    """
    scopes = [*all_scopes(one), *all_scopes(two)]
    whole = _Comparison(one, two, {})
    if len(scopes) <= MAX_WHOLE:
        identity = whole.attempt(0, MAX_PRODUCTS) or whole.written_out(MAX_PRODUCTS)
        if identity is not None:
            return identity
    if one.sizes or two.sizes:
        return None
    return _shown_in_steps(one, two, values)


def _shown_in_steps(
    one: Scope, two: Scope, values: Mapping[Scope, Array] | None
) -> Identity | None:
    """Return that two scopes are equal since inner ones are; None where this is not shown.

    A few that laws do not tell are compared as relations: a function of what is corrected at the
    border of an image has the arguments that it had.
    """
    steps: list[Identity] = []
    exact_steps = iter(range(MAX_EXACT_STEPS))

    def is_equal_step(ours: Scope, theirs: Scope, cuts: Mapping[Scope, str]) -> bool:
        comparison = _Comparison(ours, theirs, cuts)
        for limit in LIMITS:
            identity = comparison.attempt(limit, MAX_STEP_PRODUCTS)
            if identity is not None:
                steps.append(identity)
                return True
        has_steps_left = next(exact_steps, None) is not None
        return has_steps_left and compare_exactly(ours, theirs).equal is True

    cuts = shared_values(one, two, is_equal_step, values)
    if not cuts:
        return None
    in_steps = _Comparison(one, two, cuts)
    last = in_steps.attempt(0, MAX_PRODUCTS) or in_steps.written_out(MAX_PRODUCTS)
    if last is None:
        return None
    return together([*steps, last])


@dataclass(frozen=True)
class _Comparison:
    """Two scopes of one shape; those in `cuts` are read as tensors of these names."""

    one: Scope
    two: Scope
    cuts: Mapping[Scope, str]

    def attempt(self, limit: int, products: int) -> Identity | None:
        """Compare at all output points together, reductions of at most `limit` points written
        out.
        """
        ranges = {Index(f"x{axis}"): (0, size) for axis, size in enumerate(self.one.shape)}
        point = [affine(index) for index in ranges]
        try:
            with effort(products):
                return self._at(point, ranges, limit)
        except FAILURES:
            return None

    def written_out(self, products: int) -> Identity | None:
        """Compare with reductions written out: at all output points together, else at each."""
        identity = self.attempt(MAX_WRITTEN_OUT, products)
        shape = self.one.shape
        if identity is not None or not shape or not all(map(is_number, shape)):
            return identity
        if prod(shape) > MAX_POINTS:
            return None
        identities: list[Identity] = []
        try:
            with effort(products):
                for point in product(*map(range, shape)):
                    identity = self._at(list(map(affine, point)), {}, MAX_WRITTEN_OUT)
                    if identity is None:
                        return None
                    identities.append(identity)
        except FAILURES:
            return None
        return together(identities)

    def _at(self, point: Sequence[Affine], ranges: Ranges, limit: int) -> Identity | None:
        """Compare at a point, counted from 0 on every axis, of indices or of numbers."""
        with knowing(Knowledge(ranges)):
            readers, sides = [], []
            for scope in (self.one, self.two):
                reader = Reader(limit, self.cuts)
                place = [form + it.low for form, it in zip(point, scope.iterators)]
                sides.append(reader.scope(scope, place))
                readers.append(reader)
            if readers[0].requirements != readers[1].requirements:
                return None
            if not is_zero(sides[0] - sides[1]):
                return None
        return Identity(any(reader.divides for reader in readers))
