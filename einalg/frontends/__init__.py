"""Front ends: models of frameworks as graphs of programs, with calls of the framework elsewhere.

`graph` has the nodes, `axis_order` the orders of axes in memory, `graph_builder` the construction
of nodes, `constant_folding` what can be computed before a call, and `import_cache` graphs of
earlier imports; `onnx` and `torch` read the models. Imports `einalg.language`, `einalg.storage` and
`einalg.runtime`; derive, codegen and `einalg.api` import from here. A new framework is a folder
with a table of operators and an importer.
"""
