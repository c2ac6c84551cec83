"""The notebooks and their stored outputs: executed and written anew by `python -m docs.notebooks`.

The tests execute every notebook, and compare what it shows with what is stored; the site shows what
is stored. What differs from run to run (times, paths, addresses) is masked. A cell whose output
depends on the machine has the tag `machine`: of it, the kinds of its outputs are compared.
"""
