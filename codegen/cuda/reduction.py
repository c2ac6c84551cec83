"""Long reductions that the threads of a warp or of a block share: each sums some points, then the sums are added up in a tree."""

from __future__ import annotations

from typing import Any

from codegen.block import LOCAL_NAMES, Block
from codegen.cuda.points import CudaSource, Points, counted
from codegen.ir import Alloc, Buf, Function, Put, Ref, Statement
from codegen.plan import points
from codegen.schedule import outer_first
from codegen.sums import ASSIGN, outermost_reductions, reads_inside, value
from einalg.affine import affine
from einalg.scope import Reduce

MOST_SHARED = 8  # reductions of one kernel


def shared_reductions(source: CudaSource) -> list[Reduce]:
    """The reductions of a statement that several threads share, inner ones first; none where each thread is better off alone."""
    if Points.of(source, "point", source.plan.output).count >= source.numbers.busy:
        return []
    found: list[Reduce] = []
    place = source.block(source.plan.output).place

    def see(body: Any, conditional: bool) -> None:
        for reduce in outermost_reductions(body):
            if reduce in found:
                continue
            free = {i for index in reduce.free_symbols for i in place.form(affine(index)).indices}
            see(reduce.body, True)
            if free <= place.bound and points(reduce) >= source.numbers.long and not (conditional and not reads_inside(reduce, place)):
                found.append(reduce)

    see(source.scope.body, bool(source.scope.where))
    return found if len(found) <= MOST_SHARED else []


def reduction_kernel(source: CudaSource, reduces: list[Reduce]) -> Function:
    """The kernel in which a group of threads computes one output."""
    return source.function(_Reduction(source, reduces).body())


class _Reduction:
    def __init__(self, source: CudaSource, reduces: list[Reduce]):
        few, many = source.numbers.lanes
        self.source, self.reduces = source, reduces
        self.outputs = Points.of(source, "point", source.plan.output)
        self.lanes = many if max(map(points, reduces)) >= 4 * many else few
        self.groups = max(1, min(source.numbers.threads // self.lanes, self.outputs.count))
        self.blocks = -(-self.outputs.count // self.groups)
        self.block, self.group = source.fresh("block", self.blocks), source.fresh("group", self.groups)
        self.lane = source.fresh("lane", self.lanes)
        names = source.block(source.plan.output).names
        self.parts: dict[Reduce, Buf] = {}
        for reduce in reduces:
            name = next(n for k in range(len(names) + 1) if (n := f"{LOCAL_NAMES[reduce.op]}s{k or ''}") not in names)
            names.add(name)
            self.parts[reduce] = Buf(name, (self.groups, self.lanes), source.accumulated(reduce), "shared")
        self.names = names

    def body(self) -> tuple[Statement, ...]:
        inside: list[Statement] = [Alloc(part) for part in self.parts.values()]
        for position, reduce in enumerate(self.reduces):
            inside += self.shared(reduce, self.reduces[:position])
        last = self.at_point(self.reduces)
        self.source.put_point(last)
        inside.append(counted(self.group, self.groups, self.placed(last), "thread"))
        return (counted(self.block, self.blocks, inside, "block"),)

    def at_point(self, known: list[Reduce]) -> Block:
        """A block at one output, where some reductions are summed already."""
        block = self.source.block(self.source.plan.output)
        block.names |= self.names
        for reduce in known:
            block.results[reduce] = Ref(self.parts[reduce], (affine(self.group), affine(0)))
        return block

    def placed(self, block: Block) -> tuple[Statement, ...]:
        form = affine(self.block) * self.groups + affine(self.group)
        return self.outputs.at(form, self.blocks * self.groups - 1, block.statements)

    def shared(self, reduce: Reduce, known: list[Reduce]) -> list[Statement]:
        """The sums of the threads, and the tree that adds them up."""
        part = self.parts[reduce]
        block = self.at_point(known)
        pending = block.place.open(self.source.scope.where)
        inner = block.inner(block.place.given(pending)) if pending else block
        if pending is not None:
            total = Ref(inner.local(reduce, (), self.source.accumulated(reduce)), ())
            inner.put(total, "=", self.source.identity(reduce))
            inner.add(self.strided(reduce, total, inner))
            inner.put(Ref(part, (affine(self.group), affine(self.lane))), "=", total)
        if pending:
            block.branch(pending, inner)
        threads = counted(self.group, self.groups, [counted(self.lane, self.lanes, self.placed(block), "thread")], "thread")
        statements: list[Statement] = [threads]
        width = self.lanes // 2
        while width:
            here, there = (Ref(part, (affine(self.group), affine(self.lane) + shift)) for shift in (0, width))
            add = Put(here, ASSIGN[reduce.op], there)
            statements.append(counted(self.group, self.groups, [counted(self.lane, width, [add], "thread")], "thread"))
            width //= 2
        return statements

    def strided(self, reduce: Reduce, total: Ref, block: Block) -> Statement:
        """The points of a reduction that one thread sums: every so many, so that neighbouring threads read neighbours."""
        source = self.source
        levels = [level for it in outer_first(reduce) for level in source.plan.summed[it.index]]
        terms = Points.of(source, "term", levels)
        steps = -(-terms.count // self.lanes)
        step = source.fresh("step", steps)
        place = block.place
        for level in levels:
            place = place.loop(level.index, *level.range)
        term = block.inner(place)
        pending = place.open(source.skipping(reduce))
        if pending is not None:
            inner = term.inner(place.given(pending)) if pending else term
            inner.put(total, ASSIGN[reduce.op], value(source, reduce.body, inner))
            if pending:
                term.branch(pending, inner)
        form = affine(step) * self.lanes + affine(self.lane)
        return counted(step, steps, terms.at(form, steps * self.lanes - 1, term.statements))
