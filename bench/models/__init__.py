"""Networks to optimize and to compare.

Those of EinNet's evaluation, and sixteen that are in wide use, with random weights of one seed.

`MODELS[name](batch)` gives a module in evaluation mode and its inputs; `SMALL[name](batch)` the
same at sizes for a quick test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.models.generators import dcgan, infogan
from bench.models.mobile import V3_BLOCKS, efficientnet, mobilenet_v2, mobilenet_v3
from bench.models.pictures import convnext, inception, nasnet, squeezenet
from bench.models.resnet import resnet3d, resnet18, resnet50, resnext50
from bench.models.resolution import fsrcnn, srcnn
from bench.models.seeded import Model
from bench.models.segmentation import csrnet, gcn, unet
from bench.models.sequences import bert, longformer, lstm, mmoe
from bench.models.transformers import bert12, gpt, gpt_step, swin, vit

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
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "efficientnet": efficientnet,
    "squeezenet": squeezenet,
    "resnet50": resnet50,
    "resnext50": resnext50,
    "inception": inception,
    "resnet3d": resnet3d,
    "nasnet": nasnet,
    "convnext": convnext,
    "unet": unet,
    "vit": vit,
    "swin": swin,
    "bert12": bert12,
    "gpt": gpt,
    "gpt_step": gpt_step,
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
    "mobilenet_v2": partial(mobilenet_v2, size=32, stages=((1, 8, 1, 1), (2, 8, 2, 2))),
    "mobilenet_v3": partial(mobilenet_v3, size=32, blocks=V3_BLOCKS[:4]),
    "efficientnet": partial(efficientnet, size=32, stages=((1, 3, 1, 8, 1), (2, 5, 2, 8, 2))),
    "squeezenet": partial(squeezenet, size=35, fires=((3, 4), (3, 5))),
    "resnet50": partial(resnet50, size=32, blocks=(1, 1)),
    "resnext50": partial(resnext50, size=32, blocks=(1, 1)),
    "inception": partial(inception, size=75, unit=1, thin=(2,)),
    "resnet3d": partial(resnet3d, frames=3, size=9, channels=(4, 5)),
    "nasnet": partial(nasnet, size=33, channels=3, counts=(1, 1)),
    "convnext": partial(convnext, size=32, channels=(6, 8), counts=(1, 1)),
    "unet": partial(unet, size=16, channels=(4, 6, 8)),
    "vit": partial(vit, size=32, hidden=12, heads=3, layers=1),
    "swin": partial(swin, size=32, window=2, hidden=6, heads=2, counts=(2, 1)),
    "bert12": partial(bert12, rows=7, hidden=24, heads=3, layers=2),
    "gpt": partial(gpt, rows=5, hidden=12, heads=3, layers=2, words=17),
    "gpt_step": partial(gpt_step, past=5, hidden=12, heads=3, layers=2, words=17),
}
# At full size torch itself computes a Longformer layer by tiles.
TILED: dict[str, Callable[[int], Model]] = {
    "longformer_d1": partial(longformer, tiled=True),
    "longformer_d4": partial(longformer, dilation=4, tiled=True),
}

__all__ = ["MODELS", "SMALL", "TILED", "Model"]
