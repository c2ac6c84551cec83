"""Windows over repeated elements, as sums that read each element once.

An image at several times its size has every element several times side by side. Taps of a window
that read the same one are added, ahead: what is left is a transposed convolution of the image as it
was, which multiplies less often. Where a window has one tap, the product comes first and its
results are repeated. Every change is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from derive.programs.passes.subprogram import excerpt, is_proven
from derive.programs.passes.weights.weighted_sums import WeightedSum, weighted_sum
from einalg.frontends.graph import live_statements, unique_name
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.index.affine import Affine, FloorDiv, Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, fresh_index
from einalg.language.ir.program import Program, in_order, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Padded, Tensor, padded_box, paddings

Pair = tuple[int, int]


@dataclass(frozen=True)
class _Axis:
    """An axis of what is repeated, with its `size`: each element `times` side by side.

    A product reads the repeated elements at `place`, with padding of so many before and after.
    """

    size: int
    times: int
    place: Affine
    amounts: Pair


@dataclass(frozen=True)
class _RepeatedWindow:
    """The taps `tap` of the output index `out`, which meet the repeated element
    `out + tap + begin`.
    """

    out: LoopIndex
    tap: LoopIndex
    begin: int
    times: int

    @property
    def taps(self) -> int:
        """Return how many taps there are where each element is read once."""
        return self.tap.extent + self.times - 1

    @property
    def numerator(self) -> Affine:
        """Return `times` multiplied by the element that a tap meets, where it meets one."""
        distance = affine(self.out.index).plus(affine(self.tap.index), -1)
        return distance.plus(Affine.constant(self.begin + self.tap.extent - 1))

    def amounts(self, size: int) -> Pair:
        """Return how many elements are met before and after so many."""
        last = self.begin + self.tap.extent - 1
        low = (self.out.low - self.taps + 1 + last) // self.times
        high = (self.out.high - 1 + last) // self.times
        return max(0, -low), max(0, high + 1 - size)


def without_repetitions(program: Program, is_late: Callable[[], bool] = lambda: False) -> Program:
    """Return a flat program whose products read no element again because it is repeated.

    Nothing more is changed once it `is_late`.

    >>> import einalg as ea
    >>> W = ea.tensor("W", (4, 2, 3), role="weight")
    >>> text = "U[c,h:16] = A[c,h//2]\\nO[f,h:16] += U.pad(0,1)[c,h+r-1]*W[f,c,r]"
    >>> for name, scope in without_repetitions(ea.parse(text, A=(2, 8), W=W)).statements:
    ...     print(name, scope.body)
    W_added Sum[e:2](W.pad(0, 0, 1)[f, c, e - r + 2])
    O Sum[c:2, r:4](A.pad(0, 1)[c, (h - r + 1)//2]*W_added[f, c, r], where=Eq((h - r + 1)%2, 0))
    """
    known, outputs = dict(program.statements), program.outputs
    ahead = set(compile_time_statements(program))
    names = {*known, *program.tensors}
    is_changed = False
    for name in program.names:
        if is_late():
            break
        product = weighted_sum(name, known[name], ahead)
        if product is None or product.data.tensor.name not in known:
            continue
        repeated = product.data.tensor.name
        changed = _changed(product, known[repeated], names)
        if not changed:
            continue
        before = excerpt(known, [repeated, name])
        if not is_proven(before, excerpt({**known, **changed}, list(changed))):
            continue
        known |= changed
        names |= changed.keys()
        is_changed = True
    if not is_changed:
        return program
    return Program(live_statements(in_order(known.items()), outputs), outputs)


def _changed(product: WeightedSum, copy: Scope, names: set[str]) -> dict[str, Scope]:
    """Return new statements for a product of what a copy repeats; none where it repeats nothing."""
    axes = _axes(product, copy)
    if axes is None or all(axis.times == 1 for axis in axes):
        return {}
    windows: list[_RepeatedWindow | None] = []
    repeated: dict[Index, _Axis] = {}  # by the index of the result
    for axis in axes:
        window = None
        if axis.times > 1:
            window = _window(product, axis)
            index = axis.place.as_index()
            if window is None:
                if index is None or not _is_read_alone(product, index, axis):
                    return {}
                repeated[index] = axis
        windows.append(window)
    statements: dict[str, Scope] = {}
    weights = product.weights
    if any(windows):
        label = unique_name(f"{weights.tensor.name}_added", names)
        statements[label] = _added(product, windows)
        weights = Access.of(statement_tensor(label, statements[label]), weights.subscripts)
    summed = _product_of_elements(product, copy, axes, windows, weights, repeated)
    if not repeated:
        return {**statements, product.name: summed}
    label = unique_name(f"{product.name}_once", {*names, *statements})
    places = {index: affine(index).quotient(axis.times) for index, axis in repeated.items()}
    subscripts = tuple(places.get(index, affine(index)) for index in summed.indices)
    read = Access.of(statement_tensor(label, summed), subscripts)
    return {**statements, label: summed, product.name: Scope(product.scope.iterators, (), read)}


def _axes(product: WeightedSum, copy: Scope) -> list[_Axis] | None:
    """Return the axes of what is copied, in its order.

    None where it is no tensor whose elements are repeated along its axes, as a whole.
    """
    original, read = copy.body, product.data
    if not isinstance(original, Access) or not isinstance(original.base, Tensor) or copy.where:
        return None
    if any(view.fill != 0 for view in paddings(read.base)):
        return None
    amounts = _amounts(read)
    single = {it.index: affine(it.low) for it in product.loops.values() if it.extent == 1}
    positions = {index: position for position, index in enumerate(copy.indices)}
    axes: list[_Axis] = []
    for subscript, (low, high) in zip(original.subscripts, original.base.box):
        index, times = _repeated_index(subscript)
        position = positions.pop(index, None) if index is not None else None
        if position is None or low != 0:
            return None
        iterator = copy.iterators[position]
        if times > 1 and (iterator.low, iterator.high) != (0, times * high):
            return None
        place = read.subscripts[position].substitute(single)
        axes.append(_Axis(high, times, place, amounts[position]))
    if positions:
        return None
    return axes


def _amounts(read: Access) -> list[Pair]:
    """Return the elements before and after each axis that a view adds."""
    amounts: list[Pair] = []
    for (low, high), (first, last) in zip(read.tensor.box, padded_box(read.base)):
        amounts.append((low - first, last - high))
    return amounts


def _repeated_index(subscript: Affine) -> tuple[Index | None, int]:
    """Return the index of `i` or `i//times`, and how many times each element is there."""
    atom = subscript.as_atom()
    if isinstance(atom, FloorDiv):
        return atom.argument.as_index(), atom.divisor
    return subscript.as_index(), 1


def _window(product: WeightedSum, axis: _Axis) -> _RepeatedWindow | None:
    """Return the window by which a product reads an axis; None where it reads it otherwise."""
    out = [it for it in product.scope.iterators if it.index in axis.place.indices]
    taps = [it for it in product.axes if it.index in axis.place.indices]
    if len(out) != 1 or len(taps) != 1 or out == taps:
        return None
    (out_index,), (tap,) = out, taps
    both = affine(out_index.index).plus(affine(tap.index))
    begin = axis.place.plus(both, -1)
    if not begin.is_number or not _is_alone(product, (out_index.index, tap.index)):
        return None
    return _RepeatedWindow(out_index, tap, begin.const, axis.times)


def _is_read_alone(product: WeightedSum, index: Index, axis: _Axis) -> bool:
    """Tell whether an index of a result walks over a whole axis, and over nothing else."""
    iterator = product.loops.get(index)
    if iterator is None or index not in product.scope.indices or any(axis.amounts):
        return False
    is_whole = (iterator.low, iterator.high) == (0, axis.times * axis.size)
    return is_whole and index not in product.weights.free_symbols and _is_alone(product, (index,))


def _is_alone(product: WeightedSum, indices: Sequence[Index]) -> bool:
    """Tell whether indices stand in one subscript of the data."""
    places = [form for form in product.data.subscripts if not form.indices.isdisjoint(indices)]
    return len(places) == 1


def _added(product: WeightedSum, windows: Sequence[_RepeatedWindow | None]) -> Scope:
    """Return the weights of windows that meet each element once."""
    wider = {window.tap.index: window for window in windows if window is not None}
    used = set(product.loops)
    amounts: list[Pair] = []
    subscripts: list[Affine] = []
    summed: list[LoopIndex] = []
    iterators: list[LoopIndex] = []
    for it in product.axes:
        window = wider.get(it.index)
        if window is None:
            amounts.append((0, 0))
            subscripts.append(affine(it.index))
            iterators.append(it)
            continue
        again = fresh_index("e", used)
        used.add(again)
        summed.append(LoopIndex(again, 0, window.times))
        iterators.append(LoopIndex(it.index, 0, window.taps))
        amounts.append((window.times - 1, window.times - 1))
        difference = affine(again).plus(affine(it.index), -1)
        subscripts.append(difference.plus(Affine.constant(it.extent - 1)))
    read = Access.of(Padded(product.weights.base, amounts), tuple(subscripts))
    return Scope(iterators, (), Reduce("Sum", summed, (), read))


def _product_of_elements(
    product: WeightedSum,
    copy: Scope,
    axes: Sequence[_Axis],
    windows: Sequence[_RepeatedWindow | None],
    weights: Access,
    repeated: Mapping[Index, _Axis],
) -> Scope:
    """Return the product of what is repeated, whose windows meet each element once."""
    taps = {window.tap.index: window.taps for window in windows if window is not None}
    subscripts: list[Affine] = []
    amounts: list[Pair] = []
    where: list[Constraint] = []
    for axis, window in zip(axes, windows):
        if window is None:
            subscripts.append(axis.place)
            amounts.append(axis.amounts)
            continue
        subscripts.append(window.numerator.quotient(window.times))
        amounts.append(window.amounts(axis.size))
        where.append(Constraint(window.numerator.remainder(window.times), "=="))
    base = copy.body.base
    if any(map(any, amounts)):
        base = Padded(base, amounts)
    total = product.scope.body
    summed = [LoopIndex(it.index, 0, taps.get(it.index, it.high)) for it in total.iterators]
    body = Access.of(base, tuple(subscripts)) * weights
    iterators: list[LoopIndex] = []
    for it in product.scope.iterators:
        high = repeated[it.index].size if it.index in repeated else it.high
        iterators.append(LoopIndex(it.index, it.low, high))
    return Scope(iterators, (), Reduce("Sum", summed, where, body))
