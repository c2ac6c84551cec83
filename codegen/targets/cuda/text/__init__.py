"""The loop IR as CUDA text.

`printer` prints a kernel, `geometry` says how it is launched, `barriers` where its threads wait,
`vectors` which elements a thread reads at once, `wmma` what tensor cores do. `serialize` and
`warp_ops` make loops for the CPU of a kernel, to check it there. Imports the printer of C; knows no
device. Add a statement of the loop IR in `printer`, and in `warp_ops` where warps do it together.
"""
