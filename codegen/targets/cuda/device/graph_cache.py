"""Kernels of a program that are started together: as one graph where they meet the same memory again (design §10)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from codegen.targets.cuda.device.driver import Driver, KernelStart, LaunchGraph

MAX_CACHED_GRAPHS = 16  # the graphs that are kept of the same kernels, each for other addresses


class GraphCache:
    """The graphs of a program in one thread.

    A graph knows addresses and keeps no memory alive: it is launched only for memory that a call holds at these very addresses. It is made
    when a call meets its addresses for the second time, so that addresses which never come again cost nothing.
    """

    def __init__(self, driver: Driver, room: int = MAX_CACHED_GRAPHS):
        self._driver, self._room = driver, room
        self._known = dict[tuple[str, ...], OrderedDict[tuple[int, ...], LaunchGraph | None]]()

    def start(self, kernels: Sequence[KernelStart]) -> None:
        """Start kernels in order; one by one where there is no graph of them."""
        graph = self._found(kernels) if len(kernels) > 1 else None
        if graph is None or not graph.launch():
            for kernel in kernels:
                self._driver.launch(*kernel)

    def _found(self, kernels: Sequence[KernelStart]) -> LaunchGraph | None:
        known = self._known.setdefault(tuple(how.name for _, how, _ in kernels), OrderedDict())
        addresses = tuple(address for _, _, some in kernels for address in some)
        again = addresses in known
        graph = known.pop(addresses, None)
        if again and graph is None:
            graph = self._driver.graph(kernels)
        known[addresses] = graph
        if len(known) > self._room:
            known.popitem(last=False)  # the least recently used
        return graph
