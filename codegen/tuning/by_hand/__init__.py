"""Schedules that are chosen by hand: steps as values, what they make, and which are possible.

A state is a unit with a candidate of one of its spaces, and a step changes numbers of its point, so
whatever can be tuned can be scheduled by hand. `moves` has the steps, `unit` applies them, and
`choices` numbers and shows those that are possible. It knows one unit at a time;
`codegen.program.by_hand` knows programs.
"""
