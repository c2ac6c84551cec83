"""Running on a CUDA device: its driver, memory, arrays, graphs of kernels, and nvcc.

`driver` is the interface, `pycuda` what stands behind it, `find` looks for the device. Nothing of
CUDA is imported before a kernel runs. Knows launches, and no kernels. Add what a device can do to
`driver.Driver`, in `pycuda` and in the fake device of the tests.
"""
