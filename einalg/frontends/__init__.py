"""Front ends: models of frameworks as graphs of programs, with calls of the framework elsewhere.

`graph` has the nodes, `graph_builder` their construction, `constant_folding` what can be computed
before a call, and `import_cache` graphs of earlier imports; `onnx` and `torch` read the models.
Imports `einalg.language`, `einalg.storage` and `einalg.runtime`; derive, codegen and `einalg.api`
import from here. A new framework is a folder with a table of operators and an importer.
"""
