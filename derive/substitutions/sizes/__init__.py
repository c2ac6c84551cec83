"""Sizes of the axes of a graph, as general as they may be, the programs at these, and conditions on
the groups of convolutions.
"""
