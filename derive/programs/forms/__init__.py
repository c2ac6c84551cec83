"""The forms of a program, the layers that they are made of, and the order in which searches of
these are worth it. `layout_mixture` chooses layouts by measured times. Nothing is compiled here.
Add what a program may be changed into in `variants`.
"""
