"""Quasi-affine index arithmetic: integer rows in normal form, as SymPy nodes (design §2, §3).

A subscript is `Σ coefficient·atom + constant`, where an atom is an `Index`, a `FloorDiv` or a
`Modulo` of such a form by a positive constant. Floor semantics throughout, as in Python and isl.
Every operation returns the normal form, which needs no ranges; what ranges allow besides is in
`einalg.language.analysis.simplify`. The operators are in `einalg.language.index.operators`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import gcd
from typing import Any

from sympy import Basic, Dummy, Expr, Integer, Symbol, Tuple
from sympy.printing.precedence import PRECEDENCE

from einalg.errors import NotationError
from einalg.language.index.bounds import form_interval, form_value, interval_of_numbers
from einalg.language.index.identifiers import index_name
from einalg.language.index.operators import IndexArithmetic, whole_number
from einalg.language.index.text import (
    form_latex,
    form_precedence,
    form_text,
    quotient_latex,
    quotient_text,
)

IndexLike = int | IndexArithmetic | Basic


@lru_cache(maxsize=4096)
def _index(cls: type[Index], name: str) -> Index:
    return Symbol.__xnew__(cls, index_name(name), extended_real=True)


class Index(IndexArithmetic, Symbol):
    """A named integer. Its range belongs to the scope or reduction that binds it; its name is never
    semantic.

    >>> h, r = Index("h"), Index("r")
    >>> 2*h + r - 1
    2*h + r - 1
    """

    __slots__ = ()
    is_size = False

    def __new__(cls, name: str) -> Index:
        return _index(cls, str(name))

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.name,), {}

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if type(other) is Index:
            return other.name == self.name
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    @property
    def sort_tuple(self) -> tuple[Any, ...]:
        return (0, self.name)

    def as_affine(self) -> Affine:
        return Affine.from_normal_form(((self, 1),), 0)


class IndexQuotient(IndexArithmetic, Expr):
    """Common part of `FloorDiv` and `Modulo`: an affine form and a positive divisor."""

    __slots__ = ("argument", "divisor", "sort_tuple")
    argument: Affine
    divisor: int
    sign: str
    _rank: int
    precedence = PRECEDENCE["Mul"] - 1  # brackets in every product, for `-i//2` is `(-i)//2`
    divide: Callable[[Affine, int], Affine]

    def __new__(cls, argument: IndexLike, divisor: int) -> Any:
        form = cls.divide(as_form(argument), int(divisor))
        return form.as_atom() or form

    @classmethod
    def from_normal_form(cls, argument: Affine, divisor: int) -> Any:
        """Return the atom of an argument that no rule simplifies further under this divisor."""
        node = Expr.__new__(cls)
        node.argument, node.divisor = argument, divisor
        node.sort_tuple = (cls._rank, argument.sort_tuple, divisor)
        return node

    @property
    def args(self) -> tuple[Any, ...]:
        return (self.argument, Integer(self.divisor))

    __hash__ = Expr.__hash__

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if isinstance(other, IndexQuotient):
            return self.sort_tuple == other.sort_tuple
        return NotImplemented  # an `Affine` compares itself

    def __ne__(self, other: object) -> bool:
        return not self == other

    def as_affine(self) -> Affine:
        return Affine.from_normal_form(((self, 1),), 0)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.sort_tuple,)

    def _sympystr(self, printer: Any) -> str:
        return quotient_text(self)

    def _latex(self, printer: Any) -> str:
        return quotient_latex(self, printer)


class FloorDiv(IndexQuotient):
    """`argument // divisor`, an atom of a quasi-affine form."""

    __slots__ = ()
    _rank = 1
    sign = "//"

    @staticmethod
    def divide(argument: Affine, divisor: int) -> Affine:
        return floordiv(argument, divisor)


class Modulo(IndexQuotient):
    """`argument % divisor`, an atom of a quasi-affine form."""

    __slots__ = ()
    _rank = 2
    sign = "%"

    @staticmethod
    def divide(argument: Affine, divisor: int) -> Affine:
        return modulo(argument, divisor)


def as_form(value: IndexLike) -> Affine:
    """Return `value` as an `Affine`: a whole number, an index, or an index form.

    What else can be read as one is read by `einalg.language.index.convert.affine`.

    >>> as_form(3), as_form(Index("h"))
    (3, h)
    """
    if isinstance(value, IndexArithmetic):
        return value.as_affine()
    if isinstance(value, bool):
        raise NotationError(f"{value} cannot stand in a subscript\n  write {int(value)}")
    number = whole_number(value)
    if number is not None:
        return Affine.from_normal_form((), number)
    if isinstance(value, slice):
        raise NotationError(
            "a slice cannot stand in a subscript\n"
            "  bind an index that has this range: L[i:1:3](A[i])"
        )
    if isinstance(value, Dummy):
        raise NotationError(
            "SymPy asks for the indices at which a condition of its Piecewise holds\n"
            "  write cases with ea.Piecewise((a, condition), (b, True))"
        )
    raise NotationError(
        f"{value!r} cannot stand in a subscript\n"
        "  a subscript is made of indices and integers with + - * // %"
    )


Atom = Index | IndexQuotient
Terms = tuple[tuple[Atom, int], ...]


class Affine(IndexArithmetic, Expr):
    """`Σ coefficient·atom + constant` with integer coefficients, in normal form.

    >>> i = Index("i")
    >>> (4*i + 6)//4
    i + 1
    >>> 4*(i//4) + i%4
    i
    """

    __slots__ = ("_indices", "_sizes", "_sort_tuple", "const", "terms")
    terms: Terms
    const: int

    def __new__(cls, const: Any = 0, *pairs: Any) -> Affine:
        total = as_form(const)
        for atom, coefficient in pairs:
            total = total.plus(as_form(atom), int(coefficient))
        return total

    @classmethod
    def from_normal_form(cls, terms: Terms, const: int) -> Affine:
        """Return the form of these terms, which must be in normal form already: ordered by
        `sort_tuple`, each atom once, no coefficient 0. Nothing is checked.

        >>> Affine.from_normal_form(((Index("h"), 2),), -1)
        2*h - 1
        """
        node = Expr.__new__(cls)
        node.terms, node.const = terms, const
        node._sort_tuple = node._indices = node._sizes = None
        return node

    @property
    def sort_tuple(self) -> tuple[Any, ...]:
        """Orders forms, and equal exactly for equal forms."""
        if self._sort_tuple is None:
            self._sort_tuple = (tuple([(a.sort_tuple, c) for a, c in self.terms]), self.const)
        return self._sort_tuple

    @property
    def args(self) -> tuple[Any, ...]:
        return (Integer(self.const), *(Tuple(a, Integer(c)) for a, c in self.terms))

    def _hashable_content(self) -> tuple[Any, ...]:
        return self.sort_tuple

    def __hash__(self) -> int:
        if self._mhash is None:
            self._mhash = self._hash()
        return self._mhash

    def _hash(self) -> int:
        """Return the hash of the int or atom to which the form is equal, else one of its own."""
        if not self.terms:
            return hash(self.const)
        atom = self.as_atom()
        if atom is not None:
            return hash(atom)
        return hash((self.terms, self.const))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is Affine:
            return self.const == other.const and self.terms == other.terms
        if isinstance(other, (int, Integer)):
            return not self.terms and self.const == other
        return isinstance(other, IndexArithmetic) and self.as_atom() == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    @property
    def free_symbols(self) -> set[Any]:
        return {*self.indices, *self.sizes}

    @property
    def indices(self) -> frozenset[Index]:
        """The indices that occur, also inside `//` and `%`; sizes are none."""
        if self._indices is None:
            self._find_symbols()
        return self._indices  # pyright: ignore[reportReturnType]

    @property
    def sizes(self) -> frozenset[Any]:
        """The sizes that occur, also inside `//` and `%`."""
        if self._sizes is None:
            self._find_symbols()
        return self._sizes  # pyright: ignore[reportReturnType]

    def _find_symbols(self) -> None:
        indices: set[Index] = set()
        sizes: set[Any] = set()
        for atom, _ in self.terms:
            if not isinstance(atom, Index):
                indices |= atom.argument.indices
                sizes |= atom.argument.sizes
            elif atom.is_size:
                sizes.add(atom)
            else:
                indices.add(atom)
        self._indices, self._sizes = frozenset(indices), frozenset(sizes)

    def as_atom(self) -> Atom | None:
        """The single atom with coefficient 1 that this form is, or None."""
        if self.const or len(self.terms) != 1:
            return None
        ((atom, coefficient),) = self.terms
        return atom if coefficient == 1 else None

    def as_index(self) -> Index | None:
        """The bare index that this form is, or None."""
        atom = self.as_atom()
        return atom if isinstance(atom, Index) and not atom.is_size else None

    def is_affine(self) -> bool:
        """Return whether no `//` and no `%` occurs."""
        return all(isinstance(atom, Index) for atom, _ in self.terms)

    def coefficient(self, atom: Atom) -> int:
        for other, coefficient in self.terms:
            if other == atom:
                return coefficient
        return 0

    def as_affine(self) -> Affine:
        return self

    @staticmethod
    def constant(value: int) -> Affine:
        return Affine.from_normal_form((), value)

    def quotient(self, divisor: int) -> Affine:
        return floordiv(self, divisor)

    def remainder(self, divisor: int) -> Affine:
        return modulo(self, divisor)

    def scaled(self, factor: int) -> Affine:
        if factor == 1:
            return self
        if factor == 0:
            return Affine.from_normal_form((), 0)
        terms = tuple([(atom, coefficient * factor) for atom, coefficient in self.terms])
        if any(_is_reducible(atom, coefficient) for atom, coefficient in terms):
            return _from_row(dict(terms), self.const * factor)
        return Affine.from_normal_form(terms, self.const * factor)

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """Return `self + factor*other`, without reading `other` as an index form first.

        >>> as_form(Index("h")).plus(as_form(Index("r")), -2)
        h - 2*r
        """
        if not other.terms:
            if not other.const:
                return self
            return Affine.from_normal_form(self.terms, self.const + factor * other.const)
        row = dict(self.terms)
        for atom, coefficient in other.terms:
            row[atom] = row.get(atom, 0) + factor * coefficient
        return _from_row(row, self.const + factor * other.const)

    def substitute(self, mapping: Mapping[Index, Affine]) -> Affine:
        """Replace indices and sizes by affine forms; the same object where none occurs."""
        names = mapping.keys()
        if names.isdisjoint(self.indices) and (not self.sizes or names.isdisjoint(self.sizes)):
            return self
        row: dict[Atom, int] = {}
        const = self.const
        for atom, coefficient in self.terms:
            if not isinstance(atom, Index):
                value = atom.divide(atom.argument.substitute(mapping), atom.divisor)
            elif atom in mapping:
                value = mapping[atom]
            else:
                row[atom] = row.get(atom, 0) + coefficient
                continue
            const += coefficient * value.const
            for a, c in value.terms:
                row[a] = row.get(a, 0) + coefficient * c
        return _from_row(row, const)

    def evaluate(self, env: Mapping[Index, Any]) -> Any:
        """The value where every index has the value `env[index]`: an int, or a NumPy integer
        array.
        """
        return form_value(self, env)

    def interval(self, ranges: Mapping[Index, tuple[Any, Any]]) -> tuple[Any, Any]:
        """Closed bounds `[low, high]` over half-open index ranges; exact for affine forms over a
        box, else an enclosure. They are forms of sizes where there are some.
        """
        return form_interval(self, ranges)

    def interval_of_numbers(self, ranges: Mapping[Index, tuple[Any, Any]]) -> tuple[float, float]:
        """Closed bounds as integers or infinities, over half-open index ranges and all sizes."""
        return interval_of_numbers(self, ranges)

    @property
    def precedence(self) -> int:
        return form_precedence(self)

    def _sympystr(self, printer: Any) -> str:
        return form_text(self)

    def _latex(self, printer: Any) -> str:
        return form_latex(self, printer)


def _term_order(term: tuple[Atom, int]) -> tuple[Any, ...]:
    return term[0].sort_tuple


def _from_row(row: dict[Atom, int], const: int) -> Affine:
    terms = [(a, c) for a, c in row.items() if c]
    for atom, coefficient in terms:
        if _is_reducible(atom, coefficient):
            return _from_row(_with_reduced(atom, dict(terms)), const)
    if len(terms) > 1:
        if any(type(a) is Modulo for a, _ in terms):
            terms, const = _join_quotients(dict(terms), const)
        terms.sort(key=_term_order)
    return Affine.from_normal_form(tuple(terms), const)


def _join_quotients(row: dict[Atom, int], const: int) -> tuple[list[tuple[Atom, int]], int]:
    """Return a row with `c·e` for `c·k·(e//k) + c·(e%k)`."""
    for atom in list(row):
        coefficient = row.get(atom, 0)
        if not coefficient or not isinstance(atom, Modulo):
            continue
        if coefficient * atom.divisor not in row.values():
            continue
        quotient = floordiv(atom.argument, atom.divisor).as_atom()
        if quotient is not None and row.get(quotient) == coefficient * atom.divisor:
            del row[atom], row[quotient]
            const += coefficient * atom.argument.const
            for a, c in atom.argument.terms:
                row[a] = row.get(a, 0) + coefficient * c
    return [(a, c) for a, c in row.items() if c], const


def whole_quotient(atom: Atom) -> tuple[Any, int] | None:
    """Return the size and the divisor of what is a size, or a quotient of one that is exact since
    the size is a multiple of the divisor; None for any other atom.
    """
    size: Any = atom
    divisor = 1
    if type(atom) is FloorDiv:
        size, divisor = atom.argument.as_atom(), atom.divisor
    if getattr(size, "is_size", False) and size.multiple_of % divisor == 0:
        return size, divisor
    return None


def _is_reducible(atom: Atom, coefficient: int) -> bool:
    """Return whether `coefficient` times an exact quotient has a smaller divisor, as `2*(N//4)`
    where 4 divides `N`.
    """
    if type(atom) is not FloorDiv or gcd(coefficient, atom.divisor) == 1:
        return False
    return whole_quotient(atom) is not None


def _with_reduced(atom: Any, row: dict[Atom, int]) -> dict[Atom, int]:
    """Return a row with `N//2` for `2*(N//4)`, an exact quotient."""
    coefficient = row.pop(atom)
    common = gcd(coefficient, atom.divisor)
    reduced = _size_over(atom.argument.as_atom(), atom.divisor // common)
    row[reduced] = row.get(reduced, 0) + coefficient // common
    return row


def _size_over(size: Any, divisor: int) -> Atom:
    return size if divisor == 1 else FloorDiv.from_normal_form(as_form(size), divisor)


def _divided_exactly(atom: Atom, coefficient: int, divisor: int) -> tuple[Atom, int] | None:
    """Return a multiple of an atom over a divisor, as an atom with a coefficient; None where the
    divisor does not always divide it.
    """
    if coefficient % divisor == 0:
        return atom, coefficient // divisor
    whole = whole_quotient(atom)
    if whole is None:
        return None
    size, inner = whole
    common = gcd(coefficient, divisor)
    outer = inner * (divisor // common)
    if size.multiple_of % outer:
        return None
    return _size_over(size, outer), coefficient // common


def _split_multiples(form: Affine, divisor: int) -> tuple[Affine, Affine]:
    """Return `form == divisor·quotient + rest`, with whole multiples in the quotient."""
    multiples: dict[Atom, int] = {}
    rest = []
    for atom, coefficient in form.terms:
        exact = _divided_exactly(atom, coefficient, divisor)
        if exact is None:
            rest.append((atom, coefficient))
        else:
            multiples[exact[0]] = multiples.get(exact[0], 0) + exact[1]
    quotient = _from_row(multiples, form.const // divisor)
    return quotient, Affine.from_normal_form(tuple(rest), form.const % divisor)


def _divided(form: Affine, divisor: int) -> Affine:
    """Return a form whose coefficients `divisor` divides over it, the constant rounded down."""
    terms = tuple((atom, coefficient // divisor) for atom, coefficient in form.terms)
    return Affine.from_normal_form(terms, form.const // divisor)


def floordiv(form: Affine, divisor: int) -> Affine:
    """Return `form // divisor` in normal form; `divisor` > 0."""
    quotient, rest = _split_multiples(form, divisor)
    if not rest.terms:
        return quotient
    common = gcd(divisor, *(c for _, c in rest.terms))
    if common > 1:
        return quotient.plus(floordiv(_divided(rest, common), divisor // common))
    inner, coefficient = rest.terms[0]
    if len(rest.terms) == 1 and coefficient == 1 and isinstance(inner, FloorDiv):
        nested = inner.argument.plus(Affine.constant(rest.const * inner.divisor))
        return quotient.plus(floordiv(nested, divisor * inner.divisor))
    return quotient.plus(as_form(FloorDiv.from_normal_form(rest, divisor)))


def modulo(form: Affine, divisor: int) -> Affine:
    """Return `form % divisor` in normal form; `divisor` > 0."""
    rest = _split_multiples(form, divisor)[1]
    if not rest.terms:
        return as_form(rest.const)
    plain = _without_inner_remainders(rest, divisor)
    if plain is not rest:
        return modulo(plain, divisor)
    common = gcd(divisor, *(c for _, c in rest.terms))
    if common > 1:
        inner = modulo(_divided(rest, common), divisor // common)
        return inner.scaled(common).plus(as_form(rest.const % common))
    return as_form(Modulo.from_normal_form(rest, divisor))


def _without_inner_remainders(form: Affine, divisor: int) -> Affine:
    """Return a form that is the same modulo `divisor`: `c·e` for `c·(e % k)` where `divisor`
    divides `c·k`.
    """
    for atom, coefficient in form.terms:
        if isinstance(atom, Modulo) and (coefficient * atom.divisor) % divisor == 0:
            form = form.plus(as_form(atom), -coefficient).plus(atom.argument, coefficient)
    return form
