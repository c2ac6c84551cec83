"""The loop nest of a contraction, as loop IR.

`builder` walks over its parts, `packing` copies operands, and a register tile sums `tile_ranges`,
fetches ahead (`prefetch`) and stores (`tile_store`); `loop_nest` writes it all. May import what is
beside it.
"""
