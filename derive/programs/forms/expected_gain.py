"""The order of searches: by the seconds of a call that each is expected to save in a second.

A layer saves a share of its time, which depends on its kind: convolutions by small windows have
transforms and other forms, products have few. What is expected of a kind is learned from the
searches of its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from derive.programs.forms.layers import Layer, SearchedLayer
from derive.search.starts.channels_last import convolution_channels, is_window
from einalg.language.ir.body import Reduce
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import accesses, reductions

WINDOWS, STRIDED = "windows", "strided windows"
DEPTHWISE, POOLING = "windows of each channel", "windows of one tensor"
PRODUCT, OTHER = "products", "other reductions"
PRIOR_SHARES = {  # of the time of a layer, that a search saves
    WINDOWS: 0.35,
    STRIDED: 0.15,
    DEPTHWISE: 0.1,
    POOLING: 0.05,
    PRODUCT: 0.03,
    OTHER: 0.1,
}
PRIOR_SECONDS = 4.0  # of a search
PRIOR_COUNT = 2.0  # of searches that what is expected at first is worth
MIN_SECONDS = 1e-3  # of a search


@dataclass(frozen=True)
class Experience:
    """What `count` searches of one kind of layers saved, and how long they took, on average.

    >>> Experience(0.1, 4.0, 1.0).with_search(0.3, 2.0)
    Experience(share=0.2, seconds=3.0, count=2.0)
    """

    share: float
    seconds: float
    count: float = PRIOR_COUNT

    @property
    def rate(self) -> float:
        """The share of a layer's time that is saved in a second of a search."""
        return self.share / max(self.seconds, MIN_SECONDS)

    def with_search(self, share: float, seconds: float) -> Experience:
        """Return the experience with one more search."""
        count = self.count + 1
        shares, times = self.share * self.count + share, self.seconds * self.count + seconds
        return Experience(shares / count, times / count, count)


class Expectation:
    """What is expected of searches, by the kind of layers; it learns from each."""

    def __init__(self) -> None:
        self._kinds: dict[str, Experience] = {}
        for kind, share in PRIOR_SHARES.items():
            self._kinds[kind] = Experience(share, PRIOR_SECONDS)

    def rate(self, layer: Layer, seconds: float) -> float:
        """Return the seconds of a call that a second of a search of the layer saves.

        All that is this layer takes `seconds` of a call.
        """
        return seconds * self._kinds[kind_of(layer)].rate

    def gain(self, layer: Layer, seconds: float) -> float:
        """Return the seconds of a call that a search of the layer saves, of so many."""
        return seconds * self._kinds[kind_of(layer)].share

    def seconds(self, layer: Layer) -> float:
        """Return the seconds that a search of the layer is expected to take."""
        return self._kinds[kind_of(layer)].seconds

    def learn(self, layer: SearchedLayer, seconds: float) -> None:
        """Learn from the search of a layer, which took so many seconds."""
        kind = kind_of(layer)
        self._kinds[kind] = self._kinds[kind].with_search(saved_share(layer), seconds)


def saved_share(layer: SearchedLayer) -> float:
    """Return the share of a layer's time that its best candidate saves."""
    if layer.candidate is None or not layer.original:
        return 0.0
    return max(0.0, 1.0 - layer.candidate.cost / layer.original)


def next_layer(
    layers: Sequence[Layer], seconds: Callable[[Layer], float], expectation: Expectation
) -> Layer:
    """Return the layer whose search is expected to save most in a second, the first of several."""
    return max(layers, key=lambda layer: expectation.rate(layer, seconds(layer)))


def kind_of(layer: Layer) -> str:
    """Return the kind of a layer.

    >>> import einalg as ea
    >>> from derive.programs.forms.layers import layers_of
    >>> from einalg.language.ir.program import as_program
    >>> text = "O[f,h:62] += A[c,2*h+r]*K[f,c,r]"
    >>> (layer,) = layers_of(as_program(ea.parse(text, A=(64, 128), K=(64, 64, 5))))
    >>> kind_of(layer)
    'strided windows'
    """
    scope = layer.program.result
    sums = [node for node in reductions(scope.body) if node.op == "Sum"]
    strides = [stride for node in sums for stride in _strides(scope, node)]
    several = any(len(set(accesses(node.body))) > 1 for node in sums)
    if not strides:
        return PRODUCT if several else OTHER
    if not any(channels.summed for channels in convolution_channels(scope)):
        return DEPTHWISE if several else POOLING
    return STRIDED if max(strides) > 1 else WINDOWS


def _strides(scope: Scope, node: Reduce) -> Iterator[int]:
    """Yield the stride of every window that a sum reads, if that has more than one element."""
    outputs = set(scope.indices)
    summed = [it for it in node.iterators if it.extent > 1]
    for access in accesses(node.body):
        for subscript in access.subscripts:
            if subscript.is_affine() and any(is_window(subscript, it, outputs) for it in summed):
                for index in subscript.indices & outputs:
                    yield abs(subscript.coefficient(index))
