"""Programs as CUDA projects of their own: kernels, and a function that starts them (design §12).

`launch_plan` says which kernels start on which memory of the device; `cuda_file` and `header` write
them, `check_program` the `main.cu`, `build_files` what compiles all of it, and `project` joins
these. Imports `codegen.export` and the target `codegen.targets.cuda`; needs no device.
"""
