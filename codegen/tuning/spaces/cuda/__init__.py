"""Spaces of CUDA kernels: the same protocol as for a processor, priced for a device (design §16).

`statement` is a unit with the plans that its kernels may have; `tiles`, `rows` and `outputs` are
the spaces, `device_cost` turns what a kernel asks of a device into its cycles, by what its body
does (`body_cost`) and what it reads (`memory_traffic`). `unit_spaces` lists the spaces of a unit
and chooses the point that costs least. A new kind of kernel is a space in a file of its own, and a
row there.
"""
