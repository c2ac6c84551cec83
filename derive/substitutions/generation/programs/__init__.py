"""All programs of few operators over some inputs, by their values.

`operators` and `inputs` say what programs are made of; `applying` types an operator at shapes, and
`evaluating` computes it modulo a prime, for many inputs at a time. `space` has a class for all
programs of one value; `enumeration` makes larger programs from the first one of each class only, so
that what is equal by smaller rules is met once, and `growing` adds those to the space.
"""
