"""The commands and their options.

What a command does stands in the module of its name, which is imported when it runs: `--help` is
quick.
"""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import click

from einalg import __version__
from einalg.cli.shape_options import (
    ONNX,
    divided,
    named_values,
    parsed_shapes,
    without_dashes,
)
from einalg.errors import CodegenError, DeviceError, EinalgError

PARSE_ARGUMENT = re.compile(r"parse\(\.\.\., (\w+)=\(([\w', ]+)\)\)")
NUMBERS_OF_SIZES = re.compile(r"give them numbers: \.at\(.*\)")
DIFFERENT = FAILED = 1
USAGE, INTERRUPTED = 2, 130

EPILOG = """\b
Exit codes:
  0    done; for prove and verify: proved or tested equal
  1    different; or failed: a device, a compiler or a package is missing
  2    bad usage: an option, an expression, a shape or a file
  130  interrupted

\b
Completions of commands, options and, after --op, names of operators, e.g. in
~/.bashrc (zsh and fish: zsh_source, fish_source):
  eval "$(_EINALG_COMPLETE=bash_source einalg)"

\b
In a pipe nothing is wrapped or coloured, and every row of a table is one line:
  einalg cache info | sort -k 2 -n
"""


def _is_of_the_machine(error: EinalgError) -> bool:
    """Whether something is missing here or failed, whatever was typed; a package that is missing
    has no class of its own.
    """
    return isinstance(error, (CodegenError, DeviceError)) or type(error) is EinalgError


class _Failure(click.ClickException):
    """Something is missing here or failed, shown as a message."""

    exit_code = FAILED

    def show(self, file: Any = None) -> None:
        # A message that points at a place starts on a line of its own, below which its carets stay.
        between = "" if self.message.startswith("\n") else " "
        click.echo(f"error:{between}{self.message}", file=file or sys.stderr)


class _Misuse(_Failure):
    """A mistake in the command that was typed."""

    exit_code = USAGE


def _as_option(message: str) -> str:
    """A message whose remedy is written in Python, with what is typed here instead.

    >>> _as_option("give its shape: parse(..., Z=(8, 'N'))")
    'give its shape: --Z 8,N'
    >>> _as_option("give them numbers: .at(M=1, N=1)")
    'write numbers in their places, e.g. --A 8,64'
    """
    message = message.replace("derive(..., measure=False)", "derive --no-measure")
    message = NUMBERS_OF_SIZES.sub("write numbers in their places, e.g. --A 8,64", message)
    return PARSE_ARGUMENT.sub(_shape_option, message)


def _shape_option(argument: re.Match[str]) -> str:
    """Return an argument of `parse` as it is typed here."""
    shape = re.sub("[ ']", "", argument[2]).strip(",")
    return f"--{argument[1]} {shape}"


class _Commands(click.Group):
    """A group that turns the errors of einalg and an interrupt into messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with catch_warnings():
                warnings.showwarning = _shown_on_one_side
                return super().invoke(ctx)
        except EinalgError as error:
            kind = _Failure if _is_of_the_machine(error) else _Misuse
            raise kind(_as_option(str(error))) from None
        except MemoryError as error:
            raise _Failure(
                f"the memory of this machine does not suffice: {error}\n  give smaller shapes"
            ) from None
        except OSError as error:
            if error.errno == errno.EPIPE or error.filename is None:
                raise
            raise _Misuse(f"{error.filename}: {error.strerror}") from None
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


def _shown_on_one_side(message: Any, category: type[Warning], *place: Any, **named: Any) -> None:
    """Print a warning beside the result, without a line of code that nobody typed."""
    between = "" if str(message).startswith("\n") else " "
    click.echo(f"warning:{between}{message}", err=True)


def _work(command: str) -> Any:
    """The module that does what a command asks for."""
    return import_module(f"einalg.cli.commands.{command}")


WORDS = {"ignore_unknown_options": True}  # --NAME gives a shape


def _texts(*metavars: str) -> Callable[[Any], Any]:
    """Texts or files, and the shapes and roles of their tensors."""
    shapes = "[--NAME SHAPE]..."

    def add(function: Any) -> Any:
        options = [
            click.argument(
                "words", nargs=-1, type=click.UNPROCESSED, metavar=" ".join([*metavars, shapes])
            ),
            click.option(
                "--shape",
                "shapes",
                multiple=True,
                metavar="NAME=SHAPE",
                help="A shape, for a tensor that is named like an option.",
            ),
            click.option(
                "--weight",
                "weights",
                multiple=True,
                metavar="NAME",
                help="A tensor whose values are known before run time.",
            ),
        ]
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _example_inputs(function: Any) -> Any:
    """The option that gives example inputs of a model."""
    return click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=FILE.npy",
        help="An example input of a model.",
    )(function)


def _export_c(function: Any) -> Any:
    """The option that writes a result as C."""
    return click.option(
        "--export-c",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Write the result as a C project into a folder.",
    )(function)


def _operators(ctx: click.Context, parameter: Any, begun: str) -> list[str]:
    """Return the names of operators that begin so, for the completion of a shell."""
    templates = import_module("einalg.language.ops.templates").EVERY
    return sorted({t.name for t in templates if t.name.startswith(begun)})


def _target(text: str) -> Callable[[Any], Any]:
    """Return the option for a device; `text` is its help."""
    return click.option(
        "--target", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help=text
    )


def _search(function: Any) -> Any:
    """The options of a search."""
    options = [
        _target("What it shall run on."),
        click.option(
            "--seconds",
            type=click.FloatRange(min=0),
            metavar="NUMBER",
            default=20.0,
            show_default=True,
            help="Time to search.",
        ),
        click.option(
            "--states",
            type=click.IntRange(min=0),
            metavar="NUMBER",
            default=400,
            show_default=True,
            help="States to expand.",
        ),
        click.option(
            "--seed",
            type=int,
            metavar="NUMBER",
            default=0,
            show_default=True,
            help="Draws the inputs of the numerical check.",
        ),
        click.option(
            "--op",
            "ops",
            multiple=True,
            metavar="NAME",
            shell_complete=_operators,
            help="An operator to look for; all where none is named.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _texts_and_shapes(
    ctx: click.Context, words: tuple[str, ...], shapes: tuple[str, ...], texts: int
) -> tuple[list[str], dict[str, Any]]:
    """So many texts, and the shape and dtype of every tensor that has one."""
    options: list[str] = []
    for parameter in ctx.command.params:
        options += [name for name in parameter.opts if name.startswith("--")]
    expressions, named = divided(words, options)
    if len(expressions) != texts:
        wanted = "one expression" if texts == 1 else f"{texts} expressions"
        raise click.UsageError(
            f"give {wanted}, not {len(expressions)}: "
            "a text in quotes, a file, or - for the standard input" + without_dashes(expressions),
            ctx,
        )
    return expressions, parsed_shapes({**named, **named_values(shapes, "--shape")})


def _schema(ctx: click.Context, option: Any, wanted: bool) -> None:
    if wanted:
        click.echo(_work("derive").schema_text())
        ctx.exit()


SHAPES = """
A shape is an option named like its tensor, with an element type where that is not f32: \
--A 1,64,56,56 --x 8:f64. A name in it is a symbolic size, as prove and show take it: --A N,64
"""


@click.group(cls=_Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="einalg")
def cli() -> None:
    """Tensor expressions rewritten as mathematics, proven equal, and run fast."""


@cli.command(context_settings=WORDS, epilog=SHAPES)
@_texts("TEXT|FILE")
@click.option(
    "--explain", is_flag=True, help="Show the derivation of the best candidate, step by step."
)
@click.option(
    "--candidate",
    "number",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Show that of another one of this search.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_schema,
    help="Print the schema of that JSON, and end.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Keep the derivation in a file, for einalg show.",
)
@_export_c
@_search
@click.option("--no-measure", is_flag=True, help="Compile and measure nothing: rank by estimates.")
@click.pass_context
def derive(
    ctx: click.Context,
    words: Any,
    shapes: Any,
    weights: Any,
    explain: bool,
    number: int | None,
    as_json: bool,
    save: Path | None,
    export_c: Path | None,
    **search: Any,
) -> None:
    """Search for equal programs that run faster.

    TEXT is one expression, or a program of several lines.

    \b
    einalg derive "O[n,f] += A[n,c]*K[f,c]" --A 8,64 --K 32,64 --explain
    """
    (text,), tensors = _texts_and_shapes(ctx, words, shapes, 1)
    if save is not None and not save.parent.is_dir():
        raise click.BadParameter(f"there is no folder {save.parent}", ctx, param_hint="--save")
    search["measure"] = not search.pop("no_measure")
    whole = _work("derive").run(
        text,
        tensors,
        weights,
        explain,
        number,
        as_json,
        save,
        export_c,
        **{**search, "ops": search["ops"] or None},
    )
    ctx.exit(0 if whole else INTERRUPTED)


@cli.command(context_settings=WORDS, epilog=SHAPES)
@_texts("TEXT|FILE")
@_search
@click.option(
    "--most",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    default=3,
    show_default=True,
    help="Candidates to time.",
)
@click.option(
    "--without", type=click.Choice(["torch"]), multiple=True, help="A library to leave out."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def bench(
    ctx: click.Context,
    words: Any,
    shapes: Any,
    weights: Any,
    most: int,
    without: Any,
    as_json: bool,
    **search: Any,
) -> None:
    """How fast does an expression run here?

    As it is written, by NumPy, as generated loops, and by NumPy's and torch's operators where it is
    one; and as the best that are derived.

    \b
    einalg bench "O[n,f] += A[n,c]*K[f,c]" --A 8,64 --K 32,64
    """
    (text,), tensors = _texts_and_shapes(ctx, words, shapes, 1)
    _work("bench").run(
        text, tensors, weights, most, without, as_json, **{**search, "ops": search["ops"] or None}
    )


@cli.command(context_settings=WORDS, epilog=SHAPES)
@_texts("[TEXT|FILE]")
@_example_inputs
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    metavar="NUMBER",
    default=60.0,
    show_default=True,
    help="Time for the whole.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="How many schedules are measured of a kernel, on average.",
)
@click.option(
    "--strategy",
    type=click.Choice(["evolution", "random", "model"]),
    default="evolution",
    show_default=True,
    help="What says which schedules are measured.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="What decides chance.")
@_target("Where the kernels run: cuda is the device of this machine.")
@click.option(
    "--import",
    "read_from",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take the tuned kernels of a file first.",
)
@click.option(
    "--export",
    "write_to",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write all tuned kernels of this machine into a file.",
)
@click.pass_context
def tune(
    ctx: click.Context,
    words: Any,
    shapes: Any,
    weights: Any,
    inputs: Any,
    read_from: Path | None,
    write_to: Path | None,
    **options: Any,
) -> None:
    """Search for the fastest schedules of the kernels of an expression or a model on this machine.

    Whatever is compiled later uses them. A model is an ONNX file; it is optimized first. Without an
    expression or a model, tuned kernels are read or written.

    \b
    einalg tune "O[n,f] += A[n,c]*K[f,c]" --A 8,64 --K 32,64 --trials 32
    einalg tune "O[i,j] += A[i,k]*B[k,j]" --A 512,512 --B 512,512 --target cuda
    einalg tune model.onnx --seconds 600
    einalg tune --export tuned.json
    """
    if read_from is not None:
        _work("tune").read(read_from)
    if words or (read_from is None and write_to is None):
        (text,), tensors = _texts_and_shapes(ctx, words, shapes, 1)
        _work("tune").run(text, tensors, weights, named_values(inputs, "--input"), **options)
    if write_to is not None:
        _work("tune").write(write_to)


@cli.command(context_settings=WORDS, epilog=SHAPES)
@_texts("A", "B")
@click.pass_context
def prove(ctx: click.Context, words: Any, shapes: Any, weights: Any) -> None:
    """Are two expressions equal, and where do they differ?

    The exit code is 0 where they are proved or tested equal, 1 where they differ.

    \b
    einalg prove "O[i] += A[i,j]" "O[i] += A[i,3-j]" --A 5,4
    """
    (one, two), tensors = _texts_and_shapes(ctx, words, shapes, 2)
    ctx.exit(0 if _work("prove").run(one, two, tensors, weights) else DIFFERENT)


@cli.command()
@click.argument("file", metavar="RULES")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Time for each rule.")
@click.pass_context
def verify(ctx: click.Context, file: str, names: Any, seconds: float) -> None:
    """Are the rewrite rules of a file right, and at which sizes?

    RULES is JSON, or TASO's graph_subst.pb; NAME... are rules of it, by default all. The exit code
    is 0 where each is proved or tested equal at all sizes, 1 where one is not.

    \b
    einalg verify rules.json
    einalg verify rules.json set/99
    """
    ctx.exit(0 if _work("verify").run(file, names, seconds) else DIFFERENT)


@cli.command()
@click.argument("operators", nargs=-1, required=True, metavar="OPERATOR...")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SHAPE",
    help="The shape of an input, e.g. 2,4; by default three of each that the operators read.",
)
@click.option("--size", type=int, default=2, show_default=True, help="Operators of a program.")
@click.option("--outputs", type=int, default=2, show_default=True, help="1: of one output only.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Time to search.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random inputs.")
@click.option("--save", "file", metavar="FILE", help="Write the rules to a file of JSON.")
@click.option("--checkpoint", metavar="FILE", help="Keep verdicts there, and go on from them.")
def substitutions(operators: Any, inputs: Any, file: str | None, **options: Any) -> None:
    """Find and prove the rewrite rules between programs of some operators.

    OPERATOR... are names of rule files, such as matmul, or of ea.ops.

    \b
    einalg substitutions relu add matmul --size 2 --save rules.json
    """
    shapes = [tuple(shape.split(",")) for shape in inputs]
    _work("substitutions").run(operators, shapes, file, **options)


@cli.command(context_settings=WORDS, epilog=SHAPES)
@_texts("TEXT|FILE")
@click.option("--latex", is_flag=True, help="As LaTeX.")
@click.option("--svg", is_flag=True, help="As a picture: einalg show … --svg > conv.svg")
@click.option("--tree", is_flag=True, help="As a tree, one node a line.")
@click.option(
    "--explain",
    is_flag=True,
    help="Of a saved derivation, show that of the best candidate, step by step.",
)
@click.option(
    "--candidate",
    "number",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Show that of another one.",
)
@click.pass_context
def show(
    ctx: click.Context,
    words: Any,
    shapes: Any,
    weights: Any,
    explain: bool,
    number: int | None,
    **forms: bool,
) -> None:
    """Print an expression with all its ranges, or what was saved.

    FILE may be what `einalg derive --save FILE` wrote: its candidates are shown, and nothing is
    searched or measured again.

    \b
    einalg show conv.json --candidate 1
    """
    (text,), tensors = _texts_and_shapes(ctx, words, shapes, 1)
    chosen = [form for form, wanted in forms.items() if wanted]
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other: give one", ctx)
    _work("show").run(text, tensors, weights, *(chosen or ["text"]), explain, number)


@cli.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@_example_inputs
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=SHAPE",
    help="The shape of an input that is drawn at random: x=1,3,224,224",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    metavar="NUMBER",
    default=300.0,
    show_default=True,
    help="Time for all; a compilation that has begun is finished.",
)
@_target("What it shall run on.")
@click.option(
    "--seed",
    type=int,
    metavar="NUMBER",
    default=0,
    show_default=True,
    help="Draws the inputs that are not given.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Save the model: as FILE.onnx, or in a folder for ea.Optimized.load.",
)
@click.option(
    "--substitutions",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="RULES",
    help="Apply the proved rules of a file to the whole model.",
)
@click.option(
    "--tune",
    type=click.FloatRange(min=0),
    metavar="NUMBER",
    default=0.0,
    help="How many of the seconds are for the schedules of kernels.",
)
@_export_c
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def optimize(  # noqa: PLR0913, PLR0917 - one parameter an option
    ctx: click.Context,
    model: str,
    inputs: Any,
    shapes: Any,
    seconds: float,
    target: str,
    seed: int,
    output: Any,
    substitutions: Path | None,
    tune: float,
    export_c: Path | None,
    as_json: bool,
) -> None:
    """Derive, measure and prove every layer of an ONNX model.

    Inputs whose shape the model states need no option. An interrupt prints what was found until
    then.
    """
    if (wrong := output and _unusable(output)) is not None:
        raise click.BadParameter(wrong, ctx, param_hint="--output")
    files, known = named_values(inputs, "--input"), parsed_shapes(named_values(shapes, "--shape"))
    options = {"substitutions": substitutions, "tune": tune}
    whole = _work("optimize").run(
        model, files, known, seconds, target, seed, output, export_c, as_json, **options
    )
    ctx.exit(0 if whole else INTERRUPTED)


def _unusable(output: Path) -> str | None:
    """Why a model cannot be saved there, before minutes are spent on it; None where it can."""
    if output.suffix == ONNX:
        return (
            None
            if output.parent.is_dir() and not output.is_dir()
            else f"{output} cannot be written: give a file in a folder that is there"
        )
    is_there = output.exists() and (not output.is_dir() or any(output.iterdir()))
    return f"{output} is there already: give a new folder, or remove it first" if is_there else None


@cli.group()
def cache() -> None:
    """Compiled kernels and measurements on disk."""


@cache.command("info")
def cache_info() -> None:
    """The folder, and the files and sizes of every shelf in it."""
    _work("cache").info()


@cache.command("clear")
@click.option("--yes", is_flag=True, help="Do not ask.")
def cache_clear(yes: bool) -> None:
    """Remove what is kept; everything is made again when it is needed."""
    _work("cache").clear(yes)


@cli.command()
def doctor() -> None:
    """Show what this machine has, and what is missing."""
    _work("doctor").run()


def main() -> None:
    """The entry point of the command line."""
    try:
        cli(prog_name="einalg")
    except KeyboardInterrupt:  # before a command runs
        sys.exit(INTERRUPTED)
