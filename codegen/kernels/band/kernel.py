"""Band products as generated code."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.hardware.cpu import CpuModel
from codegen.ir.builder import LoopBuilder
from codegen.ir.nodes import Function
from codegen.kernels.band import g2bmm_loop_nest, gbmm_loop_nest
from codegen.kernels.band.g2bmm_loop_nest import G2bmmTile, write_g2bmm
from codegen.kernels.band.gbmm_loop_nest import GbmmTile, write_gbmm
from codegen.kernels.band.problem import BandProduct
from codegen.lowering.parallel import pays

BandTile = G2bmmTile | GbmmTile


def choose_band_tile(band: BandProduct, target: CpuModel) -> BandTile:
    """Return the numbers that keep the machine's registers busiest."""
    if band.banded == "target":
        return g2bmm_loop_nest.choose_tile(band, target)
    return gbmm_loop_nest.choose_tile(band, target)


def tiled_bands(
    bands: Sequence[BandProduct],
    tiles: Sequence[BandTile],
    comment: str,
    target: CpuModel,
    parallel: bool | None = None,
) -> Function:
    """Return the function of band products that share their operands, each with its tile."""
    first = bands[0]
    if parallel is None:
        parallel = pays(sum(band.work for band in bands), first.left.buf, first.right.buf)
    out = first.target.buf
    w = LoopBuilder((first.left.buf.name, first.right.buf.name, out.name))
    for band, tile in zip(bands, tiles, strict=True):
        if isinstance(tile, G2bmmTile):
            write_g2bmm(w, band, tile, parallel)
        else:
            write_gbmm(w, band, tile, target, parallel)
    inputs = {buf.name: buf for buf in (first.left.buf, first.right.buf)}
    return Function(out.name, tuple(inputs.values()), out, tuple(w.out), comment)
