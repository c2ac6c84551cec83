"""Quasi-affine index arithmetic: integer rows in normal form, as SymPy nodes (design §2, §3).

A subscript is `Σ coefficient·atom + constant`, where an atom is an `Index`, a `FloorDiv` or a `Modulo` of such a form by a
positive constant. Floor semantics throughout, as in Python and isl. Every operation returns the normal form, which needs no
ranges; what ranges allow besides is in `einalg.facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import gcd
from typing import Any, Union

import sympy
from sympy import Expr, Integer, Symbol, Tuple
from sympy.core.sympify import sympify
from sympy.printing.precedence import PRECEDENCE

from einalg.errors import NotationError

IndexLike = Union[int, "Index", "Affine", "FloorDiv", "Modulo", Expr]


class IndexArithmetic:
    """Arithmetic and comparison shared by everything that can stand in a subscript."""

    __slots__ = ()
    __array_ufunc__ = None
    is_commutative = True
    is_integer = True

    def __add__(self, other: Any) -> Any:
        return _affine_or_body(self, other, lambda a, b: a._plus(b, 1), Expr.__add__)

    def __radd__(self, other: Any) -> Any:
        return _affine_or_body(self, other, lambda a, b: b._plus(a, 1), Expr.__radd__)

    def __sub__(self, other: Any) -> Any:
        return _affine_or_body(self, other, lambda a, b: a._plus(b, -1), Expr.__sub__)

    def __rsub__(self, other: Any) -> Any:
        return _affine_or_body(self, other, lambda a, b: b._plus(a, -1), Expr.__rsub__)

    def __mul__(self, other: Any) -> Any:
        return _affine_or_body(self, other, _times, Expr.__mul__)

    def __rmul__(self, other: Any) -> Any:
        return _affine_or_body(self, other, _times, Expr.__rmul__)

    def __neg__(self) -> Affine:
        return affine(self).scaled(-1)

    def __floordiv__(self, other: Any) -> Affine:
        return floordiv(affine(self), _divisor(other, "//"))

    def __mod__(self, other: Any) -> Affine:
        return modulo(affine(self), _divisor(other, "%"))

    def __lt__(self, other: Any) -> Any:
        return sympy.StrictLessThan(self, sympify(other), evaluate=False)

    def __le__(self, other: Any) -> Any:
        return sympy.LessThan(self, sympify(other), evaluate=False)

    def __gt__(self, other: Any) -> Any:
        return sympy.StrictGreaterThan(self, sympify(other), evaluate=False)

    def __ge__(self, other: Any) -> Any:
        return sympy.GreaterThan(self, sympify(other), evaluate=False)


@lru_cache(maxsize=4096)
def _index(cls: type[Index], name: str) -> Index:
    if not name.isidentifier():
        raise NotationError(f"{name!r} is not a name for an index\n  use a letter or a word: 'h', 'row'")
    return Symbol.__xnew__(cls, name, integer=True)


class Index(IndexArithmetic, Symbol):
    """A named integer. Its range belongs to the scope or reduction that binds it; its name is never semantic.

    >>> h, r = Index("h"), Index("r")
    >>> 2*h + r - 1
    2*h + r - 1
    """

    __slots__ = ()
    is_integer = True

    def __new__(cls, name: str) -> Index:
        return _index(cls, str(name))

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.name,), {}

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        return other.name == self.name if type(other) is Index else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    @property
    def sort_tuple(self) -> tuple[Any, ...]:
        return (0, self.name)


class _Quotient(IndexArithmetic, Expr):
    """Common part of `FloorDiv` and `Modulo`: an affine form and a positive divisor."""

    __slots__ = ("argument", "divisor", "sort_tuple")
    _rank = 1
    precedence = PRECEDENCE["Mul"]

    def __new__(cls, argument: IndexLike, divisor: int) -> Any:
        return cls._normal(affine(argument), int(divisor))

    @classmethod
    def _make(cls, argument: Affine, divisor: int) -> Any:
        node = Expr.__new__(cls)
        node.argument, node.divisor = argument, divisor
        node.sort_tuple = (cls._rank, argument.sort_tuple, divisor)
        return node

    @property
    def args(self) -> tuple[Any, ...]:
        return (self.argument, Integer(self.divisor))

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.sort_tuple,)


class FloorDiv(_Quotient):
    """`argument // divisor`, an atom of a quasi-affine form."""

    __slots__ = ()
    _rank = 1

    @classmethod
    def _normal(cls, argument: Affine, divisor: int) -> Affine:
        return floordiv(argument, divisor)

    def _sympystr(self, printer: Any) -> str:
        return f"{_operand(self.argument)}//{self.divisor}"

    def _latex(self, printer: Any) -> str:
        return rf"\lfloor {printer._print(self.argument)} / {self.divisor} \rfloor"


class Modulo(_Quotient):
    """`argument % divisor`, an atom of a quasi-affine form."""

    __slots__ = ()
    _rank = 2

    @classmethod
    def _normal(cls, argument: Affine, divisor: int) -> Affine:
        return modulo(argument, divisor)

    def _sympystr(self, printer: Any) -> str:
        return f"{_operand(self.argument)}%{self.divisor}"

    def _latex(self, printer: Any) -> str:
        operand = printer._print(self.argument)
        return rf"{operand if self.argument.as_atom() else f'({operand})'} \bmod {self.divisor}"


Atom = Union[Index, FloorDiv, Modulo]
Terms = tuple[tuple[Atom, int], ...]


class Affine(IndexArithmetic, Expr):
    """`Σ coefficient·atom + constant` with integer coefficients, in normal form.

    >>> i = Index("i")
    >>> (4*i + 6)//4
    i + 1
    >>> 4*(i//4) + i%4
    i
    """

    __slots__ = ("terms", "const", "_sort_tuple", "_indices")

    def __new__(cls, const: Any = 0, *pairs: Any) -> Affine:
        total = affine(const)
        for atom, coefficient in pairs:
            total = total._plus(affine(atom), int(coefficient))
        return total

    @classmethod
    def _make(cls, terms: Terms, const: int) -> Affine:
        node = Expr.__new__(cls)
        node.terms, node.const = terms, const
        node._sort_tuple = node._indices = None
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
            self._mhash = hash(self.as_atom() or self.const) if len(self.terms) <= 1 and self._is_simple() else hash((self.terms, self.const))
        return self._mhash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is Affine:
            return self.const == other.const and self.terms == other.terms
        if isinstance(other, (int, Integer)):
            return not self.terms and self.const == other
        return isinstance(other, IndexArithmetic) and self.as_atom() == other

    def _is_simple(self) -> bool:
        return not self.terms or self.as_atom() is not None

    def __ne__(self, other: object) -> bool:
        return not self == other

    @property
    def free_symbols(self) -> set[Any]:
        return set(self.indices)

    @property
    def indices(self) -> frozenset[Index]:
        """The indices that occur, also inside `//` and `%`."""
        if self._indices is None:
            found: set[Index] = set()
            for atom, _ in self.terms:
                found |= {atom} if isinstance(atom, Index) else atom.argument.indices
            self._indices = frozenset(found)
        return self._indices

    def as_atom(self) -> Atom | None:
        """The single atom with coefficient 1 that this form is, or None."""
        return self.terms[0][0] if not self.const and len(self.terms) == 1 and self.terms[0][1] == 1 else None

    def as_index(self) -> Index | None:
        """The bare index that this form is, or None."""
        atom = self.as_atom()
        return atom if isinstance(atom, Index) else None

    def is_affine(self) -> bool:
        """Whether no `//` and no `%` occurs."""
        return all(isinstance(atom, Index) for atom, _ in self.terms)

    def coefficient(self, atom: Atom) -> int:
        return next((c for a, c in self.terms if a == atom), 0)

    def scaled(self, factor: int) -> Affine:
        if factor == 1:
            return self
        return Affine._make(tuple((a, c * factor) for a, c in self.terms) if factor else (), self.const * factor)

    def _plus(self, other: Affine, factor: int) -> Affine:
        if not other.terms:
            return self if not other.const else Affine._make(self.terms, self.const + factor * other.const)
        row = dict(self.terms)
        for atom, coefficient in other.terms:
            row[atom] = row.get(atom, 0) + factor * coefficient
        return _from_row(row, self.const + factor * other.const)

    def substitute(self, mapping: Mapping[Index, Affine]) -> Affine:
        """Replace indices by affine forms; the same object where none occurs."""
        if self.indices.isdisjoint(mapping):
            return self
        row: dict[Atom, int] = {}
        const = self.const
        for atom, coefficient in self.terms:
            value = mapping.get(atom) if type(atom) is Index else _substitute_quotient(atom, mapping)
            if value is None:
                row[atom] = row.get(atom, 0) + coefficient
                continue
            const += coefficient * value.const
            for a, c in value.terms:
                row[a] = row.get(a, 0) + coefficient * c
        return _from_row(row, const)

    def evaluate(self, env: Mapping[Index, Any]) -> Any:
        """The value where every index has the value `env[index]`: an int, or a NumPy integer array."""
        total: Any = self.const
        for atom, coefficient in self.terms:
            if isinstance(atom, Index):
                value = env[atom]
            elif isinstance(atom, FloorDiv):
                value = atom.argument.evaluate(env) // atom.divisor
            else:
                value = atom.argument.evaluate(env) % atom.divisor
            total = total + coefficient * value
        return total

    def interval(self, ranges: Mapping[Index, tuple[int, int]]) -> tuple[int, int]:
        """Closed bounds `[low, high]` over half-open index ranges; exact for affine forms over a box, else an enclosure."""
        low = high = self.const
        for atom, coefficient in self.terms:
            a, b = _atom_interval(atom, ranges)
            if coefficient < 0:
                a, b = b, a
            low, high = low + coefficient * a, high + coefficient * b
        return low, high

    def as_sympy(self) -> Expr:
        """The same value as an ordinary SymPy expression (`floor`, `Mod`)."""
        return sympy.Add(self.const, *(sympy.Mul(c, _atom_as_sympy(a)) for a, c in self.terms))

    @property
    def precedence(self) -> int:
        if len(self.terms) + bool(self.const) > 1 or self.const < 0:
            return PRECEDENCE["Add"]
        return PRECEDENCE["Atom"] if self.as_index() is not None or not self.terms else PRECEDENCE["Mul"]

    def _sympystr(self, printer: Any) -> str:
        ordered = sorted(self.terms, key=lambda t: t[1] < 0)
        parts = [_term_text(a, abs(c)) for a, c in ordered] + ([str(abs(self.const))] if self.const or not ordered else [])
        signs = [c < 0 for _, c in ordered] + [self.const < 0]
        first = f"-{parts[0]}" if signs[0] else parts[0]
        return first + "".join((" - " if negative else " + ") + part for negative, part in zip(signs[1:], parts[1:]))

    def _latex(self, printer: Any) -> str:
        ordered = sorted(self.terms, key=lambda t: t[1] < 0)
        text = ""
        for atom, c in ordered:
            text += ("-" if c < 0 else "+" if text else "") + ("" if abs(c) == 1 else str(abs(c))) + printer._print(atom)
        if self.const or not text:
            text += f"{self.const:+d}" if text else str(self.const)
        return text


def _term_text(atom: Atom, coefficient: int) -> str:
    if coefficient == 1:
        return str(atom)
    return f"{coefficient}*{atom}" if isinstance(atom, Index) else f"{coefficient}*({atom})"


def _operand(form: Affine) -> str:
    return str(form) if form.as_index() is not None else f"({form})"


def affine(value: IndexLike) -> Affine:
    """`value` as an `Affine`: an int, an index, a quotient, or an ordinary SymPy expression.

    >>> affine(3), affine(Index("h"))
    (3, h)
    """
    if type(value) is Affine:
        return value
    if isinstance(value, (Index, FloorDiv, Modulo)):
        return Affine._make(((value, 1),), 0)
    if isinstance(value, bool):
        raise NotationError(f"{value} is not an integer subscript")
    if isinstance(value, int):
        return Affine._make((), value)
    if hasattr(value, "__index__") and not isinstance(value, Expr):
        return Affine._make((), value.__index__())
    if isinstance(value, Expr):
        return _from_sympy(value)
    raise NotationError(f"{value!r} cannot stand in a subscript\n  a subscript is made of indices and integers with + - * // %")


def _term_order(term: tuple[Atom, int]) -> tuple[Any, ...]:
    return term[0].sort_tuple


def _from_row(row: dict[Atom, int], const: int) -> Affine:
    terms = [(a, c) for a, c in row.items() if c]
    if len(terms) > 1:
        if any(type(a) is Modulo for a, _ in terms):
            terms, const = _join_quotients(dict(terms), const)
        terms.sort(key=_term_order)
    return Affine._make(tuple(terms), const)


def _join_quotients(row: dict[Atom, int], const: int) -> tuple[list[tuple[Atom, int]], int]:
    """`c·k·(e//k) + c·(e%k)` is `c·e`."""
    for atom in [a for a in row if type(a) is Modulo]:
        quotient = floordiv(atom.argument, atom.divisor).as_atom()
        coefficient = row.get(atom, 0)
        if quotient is not None and coefficient and row.get(quotient) == coefficient * atom.divisor:
            del row[atom], row[quotient]
            const += coefficient * atom.argument.const
            for a, c in atom.argument.terms:
                row[a] = row.get(a, 0) + coefficient * c
    return [(a, c) for a, c in row.items() if c], const


def _split_multiples(form: Affine, divisor: int) -> tuple[Affine, Affine]:
    """`form == divisor·quotient + rest`, with whole multiples in the quotient."""
    out = tuple((a, c // divisor) for a, c in form.terms if c % divisor == 0)
    rest = tuple((a, c) for a, c in form.terms if c % divisor)
    return Affine._make(out, form.const // divisor), Affine._make(rest, form.const % divisor)


def floordiv(form: Affine, divisor: int) -> Affine:
    """`form // divisor` in normal form; `divisor` > 0."""
    quotient, rest = _split_multiples(form, divisor)
    if not rest.terms:
        return quotient
    common = gcd(divisor, *(c for _, c in rest.terms))
    if common > 1:
        reduced = Affine._make(tuple((a, c // common) for a, c in rest.terms), rest.const // common)
        return quotient._plus(floordiv(reduced, divisor // common), 1)
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and isinstance(inner := rest.terms[0][0], FloorDiv):
        nested = inner.argument._plus(Affine._make((), rest.const * inner.divisor), 1)
        return quotient._plus(floordiv(nested, divisor * inner.divisor), 1)
    return quotient._plus(affine(FloorDiv._make(rest, divisor)), 1)


def modulo(form: Affine, divisor: int) -> Affine:
    """`form % divisor` in normal form; `divisor` > 0."""
    rest = _split_multiples(form, divisor)[1]
    if not rest.terms:
        return affine(rest.const)
    if any(isinstance(a, Modulo) and (c * a.divisor) % divisor == 0 for a, c in rest.terms):
        opened = affine(rest.const)
        for a, c in rest.terms:
            drop = isinstance(a, Modulo) and (c * a.divisor) % divisor == 0
            opened = opened._plus(a.argument if drop else affine(a), c)
        return modulo(opened, divisor)
    common = gcd(divisor, *(c for _, c in rest.terms))
    if common > 1:
        reduced = Affine._make(tuple((a, c // common) for a, c in rest.terms), rest.const // common)
        return modulo(reduced, divisor // common).scaled(common)._plus(affine(rest.const % common), 1)
    return affine(Modulo._make(rest, divisor))


def _substitute_quotient(atom: FloorDiv | Modulo, mapping: Mapping[Index, Affine]) -> Affine:
    argument = atom.argument.substitute(mapping)
    return floordiv(argument, atom.divisor) if isinstance(atom, FloorDiv) else modulo(argument, atom.divisor)


def _atom_interval(atom: Atom, ranges: Mapping[Index, tuple[int, int]]) -> tuple[int, int]:
    if isinstance(atom, Index):
        low, high = ranges[atom]
        return low, max(low, high - 1)
    low, high = atom.argument.interval(ranges)
    k = atom.divisor
    if isinstance(atom, FloorDiv):
        return low // k, high // k
    return (low % k, high % k) if low // k == high // k else (0, k - 1)


def _atom_as_sympy(atom: Atom) -> Expr:
    if isinstance(atom, Index):
        return atom
    inner = atom.argument.as_sympy()
    if isinstance(atom, FloorDiv):
        return sympy.floor(sympy.Mul(inner, sympy.Rational(1, atom.divisor)), evaluate=False)
    return sympy.Mod(inner, atom.divisor, evaluate=False)


def _from_sympy(value: Expr) -> Affine:
    """Read an ordinary SymPy expression made of integers, indices, `floor` and `Mod`."""
    if value.is_Integer:
        return affine(int(value))
    if isinstance(value, sympy.Add):
        return _sum(affine(a) for a in value.args)
    if isinstance(value, sympy.Mul):
        coefficient, rest = value.as_coeff_Mul()
        if coefficient.is_Integer:
            return affine(rest).scaled(int(coefficient))
    if isinstance(value, sympy.floor):
        inner, divisor = _over_common_denominator(value.args[0])
        return floordiv(inner, divisor)
    if isinstance(value, sympy.Mod):
        inner, divisor = value.args
        if divisor.is_Integer and int(divisor) > 0:
            return modulo(affine(inner), int(divisor))
    raise NotationError(
        f"{value} is not quasi-affine, so it cannot stand in a subscript\n"
        "  a subscript is made of indices and integers with +, -, multiplication by integers, and // and % by positive integers"
    )


def _over_common_denominator(value: Any) -> tuple[Affine, int]:
    terms = sympy.Add.make_args(sympy.expand(value))
    divisor = 1
    for term in terms:
        coefficient = term.as_coeff_Mul()[0]
        if not coefficient.is_Rational:
            raise NotationError(f"floor({value}) is not quasi-affine")
        divisor = sympy.ilcm(divisor, coefficient.q)
    return _sum(affine(term * divisor) for term in terms), int(divisor)


def _sum(forms: Iterable[Affine]) -> Affine:
    total = affine(0)
    for form in forms:
        total = total._plus(form, 1)
    return total


def _is_index_like(value: Any) -> bool:
    if isinstance(value, (int, Integer, IndexArithmetic)):
        return not isinstance(value, bool)
    return hasattr(value, "__index__") and not isinstance(value, Expr)


def _affine_or_body(self: Any, other: Any, on_rows: Callable[[Affine, Affine], Affine | None], on_body: Callable[[Any, Any], Any]) -> Any:
    """Index arithmetic where both sides are integers; ordinary SymPy arithmetic (an index as a number) elsewhere."""
    if _is_index_like(other):
        result = on_rows(affine(self), affine(other if not isinstance(other, Integer) else int(other)))
        if result is not None:
            return result
    return on_body(self, other)


def _times(a: Affine, b: Affine) -> Affine | None:
    if not b.terms:
        return a.scaled(b.const)
    return b.scaled(a.const) if not a.terms else None


def _divisor(value: Any, sign: str) -> int:
    if isinstance(value, bool) or not (isinstance(value, (int, Integer)) or hasattr(value, "__index__")):
        raise NotationError(f"an index can be divided ({sign}) by a positive integer constant only, not by {value}")
    if int(value) <= 0:
        raise NotationError(f"an index can be divided ({sign}) by a positive integer only, not by {value}")
    return int(value)
