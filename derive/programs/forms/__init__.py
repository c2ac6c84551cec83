"""The forms of a program, the layers that they are made of, and the order in which searches of
these are worth it. `similar_layers` takes what was derived for one layer for those of other sizes
or of another layout (`other_layout`); `known_forms` keeps it on disk, and `common_forms` comes with
einalg. `layout_mixture` chooses layouts by measured times. Add what a program may be changed into
in `variants`.
"""
