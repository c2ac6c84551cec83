"""Products of two matrices and a band of a third one, as sliding-window attention has them.

`problem` describes them, `g2bmm_loop_nest` and `gbmm_loop_nest` write the loop IR of those whose
result or whose left operand is the band, and `kernel` returns the whole function. May import what
`codegen.kernels` may. Add another place of the band as a loop nest beside these.
"""
