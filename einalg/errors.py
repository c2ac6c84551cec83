"""Every error a user can meet (design §13): what is wrong, where, what is known, and one remedy."""

from __future__ import annotations

from typing import Any, TypeVar

Error = TypeVar("Error", bound="EinalgError")


class EinalgError(Exception):
    """Base of all errors that einalg raises on purpose.

    Its message ends with a remedy, on lines that are indented by two spaces: the one that it was
    made with, else the `remedy` of its class. `about` is the index, the access, or the access and
    axis in question; `placed` says that the message shows where that is. Such a message starts on
    a line of its own, wherever it is printed, so that its carets stand under what they point at;
    `message` is the text alone.

    >>> import einalg as ea
    >>> try:
    ...     ea.parse("O[i,j] = A[i,k]", A=(4, 5))
    ... except ea.EinalgError as error:
    ...     print(error.message)
    O[i,j] = A[i,k]
                 ^
    index k is on the right only
      use += to sum over it, or add it to the left: [i, j, k]
    """

    about: Any = None
    placed: bool = False
    remedy = "see help() of what was called"

    def __init__(self, message: str = ""):
        super().__init__(with_remedy(message, self.remedy))

    @property
    def message(self) -> str:
        """The text: the place, if it is known; what is wrong; the remedy."""
        return self.args[0]

    def __str__(self) -> str:
        return f"\n{self.message}" if self.placed else self.message

    def regarding(self: Error, about: Any) -> Error:
        """The same error, about something."""
        self.about = about
        return self

    def below(self: Error, place: str) -> Error:
        """The same error with its place, underlined, above the message."""
        error = type(self)(f"{place}\n{self.message}").regarding(self.about)
        error.placed = True
        return error


def with_remedy(message: str, remedy: str) -> str:
    """Return a message that ends with a remedy: its own, or this one.

    >>> with_remedy("there is no move 3", "see s.moves()")
    'there is no move 3\\n  see s.moves()'
    """
    if message.rpartition("\n")[2].startswith("  "):
        return message
    return f"{message}\n  {remedy}"


def without_remedy(error: BaseException) -> str:
    """Return what an error says is wrong and where, to be part of another message.

    >>> without_remedy(RuleError("there is no move 3"))
    'there is no move 3'
    """
    lines = str(error).strip("\n").split("\n")
    while len(lines) > 1 and lines[-1].startswith("  "):
        lines.pop()
    return "\n".join(lines)


def first_line(error: BaseException) -> str:
    """Return what an error says is wrong, on one line; its kind where it says nothing.

    >>> first_line(RuleError("there is no move 3")), first_line(KeyError())
    ('there is no move 3', 'KeyError')
    """
    text = str(error)
    if isinstance(error, EinalgError) and error.placed:
        _, _, text = error.message.split("\n", 2)  # below the place and its carets
    for line in text.splitlines():
        if line.strip():
            return line
    return type(error).__name__


class NotationError(EinalgError, ValueError):
    """The text or the Python expression is not part of the notation.

    >>> import einalg as ea
    >>> ea.parse("O[i] = A[i] if i > 2 else 0", A=(8,))
    Traceback (most recent call last):
    einalg.errors.NotationError: O[i] = A[i] if i > 2 else 0
           ^^^^^^^^^^^^^^^^^^^^
    `if` is not part of the notation
      write Piecewise((A[i], i > 2), (0, True))
    """

    remedy = "see help(einalg.parse) for the notation"


class UseError(NotationError, TypeError):
    """A Python operation that has no meaning on a tensor expression (`bool`, `len`, iteration, …),
    or an option of a function that is not of its kind.

    >>> import einalg as ea
    >>> for row in ea.tensor("A", (8, 6)):
    ...     pass
    Traceback (most recent call last):
    einalg.errors.UseError: iteration of a tensor expression has no meaning
      index it: T[i, j] with i, j = ea.indices('i j')
    """

    remedy = EinalgError.remedy


class RangeError(EinalgError, ValueError):
    """An index has no range, two ranges, or leads outside what may be read.

    >>> import einalg as ea
    >>> ea.parse("O[i:8] = A[i+1]", A=(8,))
    Traceback (most recent call last):
    einalg.errors.RangeError: O[i:8] = A[i+1]
               ^^^
    i + 1 reads [1,9) of A axis 0, which holds [0,8)
      pad it: A.pad((0, 1)), or narrow an index
    """

    remedy = "pad what is read, or narrow an index"


class ShapeError(RangeError):
    """Shapes, dtypes or parameters of an operator do not fit together.

    >>> import einalg as ea
    >>> ea.ops.matmul(ea.tensor("A", (4, 5)), ea.tensor("B", (6, 7)))
    Traceback (most recent call last):
    einalg.errors.ShapeError: matmul: the summed axis of B has size 6, but the summed axis of A has
    size 5
      make the two equal
    """

    remedy = "give arrays and sizes that fit the tensors"


class UndefinedError(EinalgError, ArithmeticError, ValueError):
    """An expression has no value on some arrays: it divides by 0, or asks for the logarithm or the
    root of what is negative, or for more than a float holds.

    >>> import einalg as ea
    >>> ea.evaluate(ea.parse("O[i] = 1/A[i]", A=(2,)), A=[1, 0])
    Traceback (most recent call last):
    einalg.errors.UndefinedError: 1/A[i] has no value at i = 1: it divides by 0
      give other arrays, or leave it out where it has none: Piecewise((a, condition), (b, True))
    """

    remedy = (
        "give other arrays, or leave it out where it has none: Piecewise((a, condition), (b, True))"
    )


class RuleError(EinalgError):
    """A rule's precondition does not hold, a move names a place that does not exist, or a step of a
    schedule is not possible.

    >>> import einalg as ea
    >>> s = ea.Session(ea.parse("O[i] += A[i,k]*B[k]", A=(4, 5), B=(5,)))
    >>> s.apply(ea.Move("summation splitting", ("O",), {"reduction": 0, "outer": ["j"]}))
    Traceback (most recent call last):
    einalg.errors.RuleError: the reduction has the indices k, not all of j
      see Session.moves() for what is possible
    """

    remedy = "see Session.moves() for what is possible"


class MatchError(EinalgError):
    """An expression does not match the operator that was asked for, or there is no such operator to
    match.

    >>> import einalg as ea
    >>> try:
    ...     ea.distance(ea.parse("O[i] = A[i]", A=(8,)), "conv9d")
    ... except ea.MatchError as error:
    ...     print(str(error).splitlines()[0])
    there is no template 'conv9d'
    """

    remedy = "see einalg.ops for the operators"


class CodegenError(EinalgError):
    """No code could be generated or compiled.

    >>> import einalg as ea
    >>> d = ea.derive(ea.parse("O[i] = 2*A[i]", A=(8,)), measure=False)
    >>> d.best.source("fortran")
    Traceback (most recent call last):
    einalg.errors.CodegenError: there is no source in 'fortran' for the target 'cpu'
      use source('c')
    """

    remedy = "compute it with einalg.evaluate, or compile for another target"


class DeviceError(EinalgError):
    """The device is missing or failed, or there is no such target.

    >>> import einalg as ea
    >>> ea.derive(ea.parse("O[i] = 2*A[i]", A=(8,)), target="tpu")
    Traceback (most recent call last):
    einalg.errors.DeviceError: there is no target 'tpu'
      use one of: cpu, cuda
    """

    remedy = "see `einalg doctor` for what this machine has"


class RecordError(EinalgError):
    """A saved record is broken, foreign, or newer than this version.

    >>> import einalg as ea
    >>> ea.Move.from_json("[]")
    Traceback (most recent call last):
    einalg.errors.RecordError: this is not a move: []
      a move has a rule, a path and args
    """

    remedy = "give another path, or save it again with this version"


class RepeatedTermWarning(UserWarning):
    """A term of `+=` that lacks a summed index: it is added once for every value of that.

    Silence it with `warnings.simplefilter("ignore", ea.RepeatedTermWarning)`, or write the sum with
    its indices, which says what is meant.

    >>> import einalg as ea
    >>> text = "O[i] += A[i,k]*x[k] + b[i]"
    >>> ea.parse(text, A=(4, 9), x=(9,), b=(4,))  # doctest: +SKIP
    RepeatedTermWarning:
    O[i] += A[i,k]*x[k] + b[i]
                          ^^^^
    b[i] is added 9 times, once for each k
      write O[i] = Sum[k](A[i,k]*x[k]) + b[i]
      or, if that is meant, O[i] = Sum[k](A[i,k]*x[k] + b[i])
    """


LONGEST, AROUND = (
    240,
    100,
)  # characters of a line that are shown, and how many of these before the place that is meant


def underline(text: str, column: int, width: int = 1, line: int = 1) -> str:
    """Return `text`'s line number `line` with carets under `width` columns from `column` (0-based);
    of a long line, what is around these.

    >>> print(underline("O[n] += Z[n]", 8))
    O[n] += Z[n]
            ^
    """
    lines = text.split("\n")
    shown = lines[min(max(line, 1), len(lines)) - 1]
    first, width = (
        max(0, min(column - AROUND, len(shown) - LONGEST)) if len(shown) > LONGEST else 0,
        max(1, width),
    )
    before, part, after = (
        "… " * (first > 0),
        shown[first : first + LONGEST],
        " …" * (first + LONGEST < len(shown)),
    )
    carets = min(width, max(1, LONGEST - (column - first)))
    return f"{before}{part}{after}\n{' ' * (len(before) + column - first)}{'^' * carets}"
