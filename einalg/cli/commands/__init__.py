"""The work of the commands, a module for each, imported when the command runs.

The options stand in `einalg.cli.app`; a new command gets its options there and its `run` here.
"""
