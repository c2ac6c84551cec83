"""Kernels of a program that are started together (design §10).

They are one graph where they meet the same memory again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from codegen.targets.cuda.device.driver import Driver, KernelStart, LaunchGraph

MAX_CACHED_GRAPHS = 16  # of the same kernels, each for other addresses


class GraphCache:
    """The graphs of a program in one thread.

    A graph knows addresses and keeps no memory alive: it is launched only for memory that a call
    holds at these very addresses. It is made when a call meets its addresses for the second time,
    so that addresses which never come again cost nothing.
    """

    def __init__(self, driver: Driver, max_graphs: int = MAX_CACHED_GRAPHS):
        self._driver, self._max_graphs = driver, max_graphs
        # By the names of the kernels; by their addresses, with None for those met only once.
        self._graphs = dict[tuple[str, ...], OrderedDict[tuple[int, ...], LaunchGraph | None]]()

    def start(self, kernels: Sequence[KernelStart]) -> None:
        """Start kernels in order; one by one where there is no graph of them."""
        graph = None
        if len(kernels) > 1:
            graph = self._graph(kernels)
        if graph is None or not graph.launch():
            for kernel in kernels:
                self._driver.launch(*kernel)

    def _graph(self, kernels: Sequence[KernelStart]) -> LaunchGraph | None:
        """Return the graph of kernels, made now where their addresses come for the second time."""
        names = tuple(how.name for _, how, _ in kernels)
        addresses = tuple(address for _, _, some in kernels for address in some)
        graphs = self._graphs.setdefault(names, OrderedDict())
        is_known = addresses in graphs
        graph = graphs.pop(addresses, None)
        if is_known and graph is None:
            graph = self._driver.graph(kernels)
        graphs[addresses] = graph
        if len(graphs) > self._max_graphs:
            graphs.popitem(last=False)  # the least recently used
        return graph
