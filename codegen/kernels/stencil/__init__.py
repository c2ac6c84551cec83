"""Convolutions with few filters, where registers hold positions of a line rather than filters.

`problem` describes the convolution with its phases and taps, `tile_choice` chooses a register tile,
`loop_nest` writes the loop IR, and `kernel` returns the whole function. May import what
`codegen.kernels` may. Add a convolution's variant to `problem`.
"""
