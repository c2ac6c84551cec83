"""Whole programs: how their kernels are built, and what runs them.

`compile` is the way in. `building` decides and compiles the kernels of a flat program for the CPU,
`restore` finds them again, `executable` runs them; `batched_executable` runs a program of one slice
for many, and `cuda_executable` one on a device, whose kernels are those of `device_units`. May
import everything else of `codegen`; a new kind of executable is a module here.
"""
