"""Rule files: JSON of our own, TASO's protobuf, and equations of terms as text.

`load` tells them apart by their content. A format is a module that yields named graphs, of which
`checking` makes rules; to add one, list it in `loading.py`.
"""
