"""Functions of numbers for whole vectors, which generated C calls or has in its own file.

`names` has the types of C, `library` declares functions of glibc, `elementary` writes exp, tanh and
erf, `conversions` those between floats and numbers of 16 bits. Macros and functions whose text is
always the same are in files of C beside them. Imports `einalg` alone.
"""
