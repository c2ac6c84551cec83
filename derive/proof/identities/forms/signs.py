"""Signs of polynomials: from their atoms, and from facts of a case by linear arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from derive.proof.identities.forms.polynomials.atoms import (
    Abs,
    Base,
    Condition,
    Exp,
    Extreme,
    IndexAtom,
    IndexCondition,
    Infinity,
    OpaqueFunction,
    PositiveNumber,
    Prefix,
    Surd,
    TensorElement,
    content,
    indices_of,
)
from derive.proof.identities.forms.polynomials.integers import (
    Inequality,
    around_rounded,
    tightened,
)
from derive.proof.identities.forms.polynomials.laurent import (
    Atom,
    Mono,
    NoValue,
    Number,
    Poly,
    number,
    spend,
)
from einalg.language.index.affine import Affine
from einalg.language.index.size import Extent, largest, least

POSITIVE, NONNEGATIVE, ZERO_SIGN, NONPOSITIVE, NEGATIVE = 2, 1, 0, -1, -2
AT_MOST_ONE = ("sin", "cos", "erf")
ZEROS = {"erf": 0, "atan": 0, "asinh": 0, "log": 1}  # of increasing functions
ANALYTIC = ("log", "erf", "sin", "cos", "atan", "asinh")
INEQUALITY_COST = 4  # of one, in products of monomials
MAX_INEQUALITIES = 200  # of one elimination
Sign = int | None
Form = dict[tuple[Atom | None, Atom | None], Fraction]  # symmetric; None stands for 1
MAX_SQUARED = 8  # atoms of a polynomial that is written as a sum of squares


@dataclass(frozen=True)
class Knowledge:
    """The ranges of indices, and inequalities that hold in a case."""

    ranges: Mapping[Any, tuple[Extent, Extent]] = field(default_factory=dict)
    facts: tuple[Inequality, ...] = ()


NOTHING = Knowledge()
_knowledge: ContextVar[Knowledge] = ContextVar("knowledge")


def knowledge() -> Knowledge:
    """Return what is known here."""
    return _knowledge.get(NOTHING)


@contextmanager
def knowing(known: Knowledge) -> Iterator[None]:
    """Decide signs inside by this knowledge."""
    token = _knowledge.set(known)
    try:
        yield
    finally:
        _knowledge.reset(token)


def interval(form: Affine) -> tuple[float | None, float | None]:
    """Return the bounds of an index form over all sizes: integers or infinities; None where an
    index has no known range.
    """
    extents = interval_of_sizes(form)
    if extents is None:
        return None, None
    return least(extents[0]), largest(extents[1])


def interval_of_sizes(form: Affine) -> tuple[Extent, Extent] | None:
    """Return the bounds of an index form as integers or forms of sizes; None where an index has no
    known range.
    """
    ranges = knowledge().ranges
    if not all(index in ranges for index in form.indices):
        return None
    return form.interval(ranges)


def sign(polynomial: Poly) -> Sign:
    """Return the sign of a polynomial wherever it has a value; None where it is not known."""
    structural = sign_of_terms(polynomial)
    if structural is None:
        structural = _sign_of_bounded(polynomial)
    if structural is None:
        structural = _sign_of_fraction(polynomial)
    if structural is None:
        structural = _sign_of_quadratic(polynomial)
    if structural is None:
        structural = _sign_above_entries(polynomial)
    if structural is None:
        structural = _sign_with_root(polynomial)
    if structural is not None:
        return structural
    if knowledge().facts or around_rounded([polynomial]):
        return _sign_by_facts(polynomial)
    return None


def _sign_of_bounded(polynomial: Poly) -> Sign:
    """Return the sign of a polynomial in functions whose absolute value is at most 1."""
    low = high = polynomial.number
    for mono, value in polynomial.terms.items():
        if not mono:
            continue
        for atom, exponent in mono:
            if not isinstance(atom, OpaqueFunction) or atom.fields[0] not in AT_MOST_ONE:
                return None
            if not isinstance(exponent, int) or exponent < 0:
                return None
        is_even = all(exponent % 2 == 0 for _, exponent in mono)
        if not is_even or value > 0:
            high = high + abs(value)
        if not is_even or value < 0:
            low = low - abs(value)
    return _sign_between(low, high)


def _sign_of_fraction(polynomial: Poly) -> Sign:
    """Return the sign of a polynomial over its denominators: that of both together."""
    if not any(isinstance(atom, Base) for atom in polynomial.atoms()):
        return None
    try:
        value, mono, rest = content(polynomial)
    except NoValue:
        return ZERO_SIGN
    if not any(isinstance(atom, Base) and exponent < 0 for atom, exponent in mono):
        return None
    product = sign_of_terms(rest), sign_of_mono(mono)
    if product[0] is None or product[1] is None:
        return None
    size = min(abs(product[0]), abs(product[1]))
    is_negative = (product[0] < 0) != (product[1] < 0)
    return -size if is_negative != (value < 0) else size


def _sign_of_quadratic(polynomial: Poly) -> Sign:
    """Return the sign of a polynomial of degree 2 that is a sum of squares, or the opposite of one:
    `x**2 + x*y + y**2` is not negative.
    """
    if len(polynomial.terms) < 3 or len(polynomial.atoms()) > MAX_SQUARED:
        return None
    form: Form = {}
    for mono, value in polynomial.terms.items():
        factors: list[Atom | None] = []
        for atom, exponent in mono:
            if exponent not in (1, 2):
                return None
            factors += [atom] * int(exponent)
        if len(factors) > 2:
            return None
        one, two = [*factors, None, None][:2]
        form[one, two] = form.get((one, two), Fraction(0)) + Fraction(value) / 2
        form[two, one] = form.get((two, one), Fraction(0)) + Fraction(value) / 2
    squares = {value > 0 for (one, two), value in form.items() if one is two and value}
    if len(squares) != 1:
        return None
    is_positive = squares.pop()
    if not is_positive:
        form = {key: -value for key, value in form.items()}
    size = _size_of_squares(form, [*polynomial.atoms(), None])
    return size if is_positive or size is None else -size


def _size_of_squares(form: Form, places: Sequence[Atom | None]) -> Sign:
    """Return the sign of a quadratic form by completing squares: that it is not negative, or above
    0 where a square of a number is left for the last place, which is None and stands for 1; None
    where it is neither.
    """
    left = list(places)
    while left:
        elements = [place for place in left if place is not None]
        pivot = next((place for place in elements if form.get((place, place))), left[0])
        left.remove(pivot)
        value = form.get((pivot, pivot), Fraction(0))
        column = {place: form.get((place, pivot), Fraction(0)) for place in left}
        if value < 0 or (not value and any(column.values())):
            return None
        if not left:
            return POSITIVE if pivot is None and value else NONNEGATIVE
        if not value:
            continue
        for one in left:
            for two in left:
                change = column[one] * column[two] / value
                form[one, two] = form.get((one, two), Fraction(0)) - change
    return NONNEGATIVE


def sign_of_terms(polynomial: Poly) -> Sign:
    """Return the sign that all terms have in common; None where they have none."""
    total = ZERO_SIGN
    for mono, value in polynomial.terms.items():
        its_sign = sign_of_mono(mono)
        if its_sign is None:
            return None
        if value < 0:
            its_sign = -its_sign
        if total * its_sign < 0:
            return None
        if abs(its_sign) > abs(total):
            total = its_sign
    return total


def sign_of_mono(mono: Mono) -> Sign:
    """Return the sign of a product of powers."""
    total = POSITIVE
    for atom, exponent in mono:
        its_sign = sign_of_power(atom, exponent)
        if its_sign is None:
            return None
        negative = (total < 0) != (its_sign < 0)
        total = min(abs(total), abs(its_sign))
        if negative:
            total = -total
    return total


def sign_of_power(atom: Atom, exponent: Number) -> Sign:
    """Return the sign of a power of an atom, where it is defined."""
    own = sign_of_atom(atom)
    if not isinstance(exponent, int):
        own = own if own == POSITIVE else NONNEGATIVE
    elif exponent % 2 == 0:
        own = POSITIVE if own in (POSITIVE, NEGATIVE) else NONNEGATIVE
    if own is not None and exponent < 0 and own != ZERO_SIGN:
        return POSITIVE if own > 0 else NEGATIVE
    return own


def sign_of_atom(atom: Atom) -> Sign:
    """Return the sign of an atom."""
    if isinstance(atom, (Exp, PositiveNumber, Surd, Infinity)):
        return POSITIVE
    if isinstance(atom, (Abs, Condition, IndexCondition)):
        return NONNEGATIVE
    if isinstance(atom, Base):
        return sign(atom.fields[0])
    if isinstance(atom, IndexAtom):
        return _sign_of_interval(atom.fields[0].as_affine())
    if isinstance(atom, Extreme):
        return _sign_of_extreme(atom)
    if isinstance(atom, Prefix):
        return _sign_of_prefix(atom)
    its_sign = _sign_of_argument(atom)
    if its_sign is None and knowledge().facts:
        its_sign = _sign_by_facts(Poly({((atom, 1),): 1}))
    return its_sign


def _sign_of_argument(atom: Atom) -> Sign:
    """Return the sign of an increasing function: that of its argument less its zero."""
    difference = above_zero(atom)
    return None if difference is None else sign(difference)


def above_zero(atom: Atom) -> Poly | None:
    """Return the difference of the argument of an increasing function and the zero of the function;
    None for others.
    """
    if not isinstance(atom, OpaqueFunction) or atom.fields[0] not in ZEROS:
        return None
    return atom.fields[1][0] - number(ZEROS[atom.fields[0]])


def _sign_of_interval(form: Affine) -> Sign:
    low, high = interval(form)
    if low is None or high is None:
        return None
    return _sign_between(low, high)


def _sign_between(low: float | Fraction, high: float | Fraction) -> Sign:
    if low >= 0:
        return POSITIVE if low > 0 else NONNEGATIVE
    if high <= 0:
        return NEGATIVE if high < 0 else NONPOSITIVE
    return None


def _sign_of_extreme(atom: Extreme) -> Sign:
    """Return the sign of a maximum: that of an entry that is always there and at least 0."""
    signs = []
    always = [entry for entry in atom.fields[0] if not entry[1]]
    for iterators, _, polynomial in always:
        its_sign = None if iterators else sign(polynomial)
        if its_sign is not None and its_sign > 0:
            return its_sign
        if its_sign == ZERO_SIGN:
            signs.append(NONNEGATIVE)
    return max(signs, default=_sign_above_entries(Poly({((atom, 1),): 1})))


def _sign_with_root(polynomial: Poly) -> Sign:
    """Return the sign of a sum with a root that outweighs the rest: `x + sqrt(x**2 + 1)` is above
    0.
    """
    for root, rest in roots_and_rests(polynomial):
        size = sign_of_terms(root * root - rest * rest)
        its_sign = sign_of_terms(root)
        if size is not None and its_sign is not None and size >= 0 and its_sign:
            return min(size, abs(its_sign)) * (1 if its_sign > 0 else -1)
    return None


def roots_and_rests(polynomial: Poly) -> Iterator[tuple[Poly, Poly]]:
    """Yield the terms that are square roots, each with the rest of the sum."""
    for mono, value in polynomial.terms.items():
        if any(isinstance(atom, Base) and exponent == Fraction(1, 2) for atom, exponent in mono):
            root = Poly({mono: value})
            yield root, polynomial - root


def _sign_above_entries(polynomial: Poly) -> Sign:
    """Return the sign of a polynomial with a maximum, which is never below its entries and their
    means: `Max(x, y, -x)` is not negative.
    """
    for mono, value in polynomial.terms.items():
        if len(mono) != 1 or mono[0][1] != 1 or not isinstance(mono[0][0], Extreme):
            continue
        rest = Poly({other: factor for other, factor in polynomial.terms.items() if other != mono})
        if value < 0:
            rest = -rest
        for mean in _means_of_entries(mono[0][0]):
            its_sign = sign_of_terms(rest + mean.scaled(abs(value)))
            if its_sign is not None and its_sign >= 0:
                its_sign = max(its_sign, NONNEGATIVE)
                return its_sign if value > 0 else -its_sign
    return None


def _means_of_entries(atom: Extreme) -> Iterator[Poly]:
    """Yield the entries of a maximum that are always there, and means of two of them."""
    always = [(its, value) for its, guards, value in atom.fields[0] if not guards]
    for place, (iterators, value) in enumerate(always[:MAX_SQUARED]):
        bound = {index for index, _, _ in iterators}
        if not bound:
            yield value
        for others, other in always[:place]:
            if others == iterators and bound.isdisjoint(indices_of(value + other)):
                yield (value + other).scaled(Fraction(1, 2))


def _sign_of_prefix(atom: Prefix) -> Sign:
    """Return that a sum or product of what is not negative is not."""
    _, body, _, upper = atom.fields
    low, _ = interval(upper)
    its_sign = sign_of_terms(body)
    if low is None or low < 0 or its_sign is None or its_sign < 0:
        return None
    return POSITIVE if its_sign == POSITIVE and low > 0 else NONNEGATIVE


def _sign_by_facts(polynomial: Poly) -> Sign:
    if implied(polynomial, True):
        return POSITIVE
    if implied(-polynomial, True):
        return NEGATIVE
    at_least, at_most = implied(polynomial, False), implied(-polynomial, False)
    if at_least and at_most:
        return ZERO_SIGN
    if at_least:
        return NONNEGATIVE
    return NONPOSITIVE if at_most else None


def implied(polynomial: Poly, strict: bool) -> bool:
    """Return whether the facts imply that a polynomial is at least 0, or above 0."""
    facts = knowledge().facts
    if (polynomial, strict) in facts or (polynomial, True) in facts:
        return True
    if _is_unbounded(polynomial, facts):
        return False
    return contradictory([*facts, (-polynomial, not strict)])


def _is_unbounded(polynomial: Poly, facts: Sequence[Inequality]) -> bool:
    """Return whether a monomial of unknown sign is in no fact."""
    bounded = {mono for fact, _ in facts for mono in fact.terms}
    for fact, _ in around_rounded([polynomial]):
        bounded.update(fact.terms)
    for mono in polynomial.terms:
        if mono not in bounded and _sign_without_facts(mono) is None:
            return True
    return False


def contradictory(inequalities: Sequence[Inequality]) -> bool:
    """Return whether linear arithmetic over monomials shows that no values meet all
    inequalities; what is known of the signs of monomials counts.
    """
    spend(len(inequalities) * INEQUALITY_COST)
    around = around_rounded([polynomial for polynomial, _ in inequalities])
    rows = [_row(*tightened(*inequality)) for inequality in (*inequalities, *around)]
    monos = {mono for row, _, _ in rows for mono in row}
    for mono in monos:
        its_sign = _sign_without_facts(mono)
        if its_sign is not None and its_sign != ZERO_SIGN:
            direction = 1 if its_sign > 0 else -1
            rows.append(({mono: Fraction(direction)}, Fraction(0), abs(its_sign) == POSITIVE))
    return _is_empty(rows)


def _sign_without_facts(mono: Mono) -> Sign:
    with knowing(Knowledge(knowledge().ranges)):
        return sign_of_mono(mono)


Row = tuple[dict[Mono, Fraction], Fraction, bool]


def _row(polynomial: Poly, strict: bool) -> Row:
    row = {mono: Fraction(value) for mono, value in polynomial.terms.items() if mono}
    return row, Fraction(polynomial.number), strict


def _is_empty(rows: list[Row]) -> bool:
    """Eliminate one variable after another (Fourier and Motzkin)."""
    while True:
        for row, constant, strict in rows:
            if not row and (constant < 0 or (strict and constant == 0)):
                return True
        rows = [row for row in rows if row[0]]
        if not rows:
            return False
        spend(len(rows))
        counts: dict[Mono, list[int]] = {}
        for row, _, _ in rows:
            for mono, value in row.items():
                counts.setdefault(mono, [0, 0])[value > 0] += 1
        mono = min(counts, key=lambda mono: counts[mono][0] * counts[mono][1])
        rows = _eliminated(rows, mono)
        if len(rows) > MAX_INEQUALITIES:
            return False


def _eliminated(rows: list[Row], mono: Mono) -> list[Row]:
    above, below, others = [], [], []
    for row in rows:
        value = row[0].get(mono, 0)
        side = others
        if value > 0:
            side = above
        elif value < 0:
            side = below
        side.append(row)
    for one, a, is_strict in above:
        for two, b, is_strict_too in below:
            p, q = -two[mono], one[mono]
            combined = {}
            for key in one.keys() | two.keys():
                value = p * one.get(key, 0) + q * two.get(key, 0)
                if value:
                    combined[key] = value
            others.append((combined, p * a + q * b, is_strict or is_strict_too))
    return others


def is_almost_never_zero(polynomial: Poly) -> bool:
    """Return whether a polynomial is 0 at most where an analytic function of the elements is, which
    is almost nowhere.
    """
    if sign(polynomial) in (POSITIVE, NEGATIVE) or is_analytic(polynomial):
        return True
    if sign(polynomial) not in (NONNEGATIVE, NONPOSITIVE):
        return False
    for mono in polynomial.terms:
        if all(_is_analytic_or_its_absolute_value(atom) for atom, _ in mono):
            return True
    return False


def _is_analytic_or_its_absolute_value(atom: Atom) -> bool:
    return is_analytic(atom) or (isinstance(atom, Abs) and is_analytic(atom.fields))


def is_analytic(value: Any) -> bool:
    """Return whether a polynomial, an atom or a field is an analytic function of elements, of no
    index in the place of a number, and not constant in a part of them. 0 is none.
    """
    if isinstance(value, Poly):
        return bool(value) and all(map(is_analytic, value.atoms()))
    if isinstance(value, tuple):
        return all(map(is_analytic, value))
    if isinstance(value, (Abs, Condition, IndexCondition, Extreme, IndexAtom, Infinity)):
        return False
    if isinstance(value, Prefix):
        return not value.fields[3].terms and is_analytic(value.fields[1])
    if isinstance(value, OpaqueFunction) and value.fields[0] not in ANALYTIC:
        return False
    if isinstance(value, TensorElement):
        return not value.fields[0].startswith("constant")
    return not isinstance(value, Atom) or is_analytic(value.fields)
