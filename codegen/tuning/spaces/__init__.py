"""Spaces of schedules: every way in which generated code can compute a unit (design §16).

A unit is a statement with its operator (`unit`). A space is a way to write its code that leaves
some numbers open; a point of it is a frozen dataclass of these (`points`), and `space` says what a
search may ask of every space. `unit_spaces` lists the spaces of a unit and chooses the point that
costs least. A new way to write code is a space in a file of its own, and a row there. `cuda` has
those of a device.
"""
