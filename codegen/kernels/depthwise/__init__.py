"""Depthwise convolutions whose channels are neighbours in memory: vectors hold channels.

`problem` describes the convolution by windows, `tile_choice` chooses a register tile, `loop_nest`
writes the loop IR, and `kernel` returns the whole function. May import what `codegen.kernels` may.
Add a variant of the convolution to `problem`.
"""
