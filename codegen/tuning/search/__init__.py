"""The search for the fastest schedule of a unit (design §16).

`targets` are the processor and the device, `history` is what was measured so far, `strategies` say
what to measure next, `measured_unit` has it compiled, run and recorded, `tuner` goes on until the
time or the trials are over, and `finalists` decides what is stored. May import the spaces, the
measuring and the records. A new strategy is a class in `strategies`, and a row there.
"""
