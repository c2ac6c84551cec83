"""CUDA for a GPU: what a device allows, lowering, text, and running.

`launch` and `device_types` are what all folders know; `lowering` makes loops over blocks and
threads, `text` prints them, `device` runs them, and `shim` runs the text on the CPU, for tests.
"""
