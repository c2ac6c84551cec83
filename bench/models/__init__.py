"""Networks to optimize and to compare.

Those of EinNet's evaluation and some more, with random weights of one seed.

`MODELS[name](batch)` gives a module in evaluation mode and its inputs; `SMALL[name](batch)` the
same at sizes for a quick test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.models.generators import dcgan, infogan
from bench.models.resnet import resnet18
from bench.models.resolution import fsrcnn, srcnn
from bench.models.seeded import Model
from bench.models.segmentation import csrnet, gcn
from bench.models.sequences import bert, longformer, lstm, mmoe

MODELS: dict[str, Callable[[int], Model]] = {
    "infogan": infogan,
    "dcgan": dcgan,
    "fsrcnn": fsrcnn,
    "gcn": gcn,
    "resnet18": resnet18,
    "csrnet": csrnet,
    "longformer_d1": longformer,
    "longformer_d4": partial(longformer, dilation=4),
    "srcnn": srcnn,
    "bert": bert,
    "lstm": lstm,
    "mmoe": mmoe,
}
SMALL: dict[str, Callable[[int], Model]] = {
    "infogan": partial(infogan, width=3),
    "dcgan": partial(dcgan, width=3),
    "fsrcnn": partial(fsrcnn, size=7),
    "gcn": partial(gcn, size=32, blocks=(1, 1, 1, 1)),
    "resnet18": partial(resnet18, size=33),
    "csrnet": partial(csrnet, size=5, width=3),
    "longformer_d1": partial(longformer, rows=23, heads=2, depth=5, width=3),
    "longformer_d4": partial(longformer, dilation=4, rows=29, heads=2, depth=5, width=3),
    "srcnn": partial(srcnn, size=11),
    "bert": partial(bert, rows=7, hidden=24, heads=3),
    "lstm": partial(lstm, layers=2, steps=5, size=7),
    "mmoe": partial(mmoe, features=13),
}
# At full size torch itself computes a Longformer layer by tiles.
TILED: dict[str, Callable[[int], Model]] = {
    "longformer_d1": partial(longformer, tiled=True),
    "longformer_d4": partial(longformer, dilation=4, tiled=True),
}

__all__ = ["MODELS", "SMALL", "TILED", "Model"]
