"""The pictures of the documentation, taken of real results by `python -m docs.pictures`.

`gallery` runs the code of `docs/gallery.md`, and `browser` photographs what it shows in light and
dark.
"""
