"""The reference of the command line, from its options."""

from __future__ import annotations

from docs.pages.markdown import block

INTRODUCTION = """# Command line

`pip install -e '.[cli]'` in a checkout installs the command `einalg`; `python -m einalg.cli` is the
same.

Shapes are options that are named like the tensors of the expression: `--A 1,64,56,56`, or with an
element type `--x 8:f64`. `--json` prints JSON for other programs; that of `einalg derive` follows
the schema that `einalg derive --schema` prints. In a pipe or a file, nothing is wrapped or
coloured, and every row of a table is one line. Shells complete commands, options and, after
`--op`, the names of operators; the commands for that are below.
"""
COMMANDS = """::: mkdocs-click
    :module: einalg.cli.app
    :command: cli
    :prog_name: einalg
    :depth: 1
    :style: plain
    :list_subcommands: true
"""


def page() -> str:
    """The whole page; mkdocs-click fills in the commands."""
    from einalg.cli.app import EPILOG  # which needs the extra `cli`

    return "\n\n".join([INTRODUCTION, block(EPILOG.replace("\b\n", "").strip()), COMMANDS])
