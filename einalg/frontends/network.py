"""A model to be optimized: its graph, how it is called, and its framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any

from einalg.errors import ShapeError
from einalg.frontends.graph import Array, Graph
from einalg.frontends.reading import Exclusions, Reading
from einalg.runtime.direct_call import DirectCall

# The arguments of a call: those in places, and those by name.
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
IN_FRAMEWORK = "in the framework"
ChangeOfKind = Callable[[Array, str], Array]  # of an array of floats, and their type


@dataclass(frozen=True)
class Original:
    """A model in its framework, as arrays.

    `again` reads the model once more, with some nodes as calls of the framework. `changed` returns
    the arguments of the example with other floats, `arrays` those of a call as the graph's inputs,
    and `results` the arrays of a result with their types.
    """

    name: str
    again: Callable[[Exclusions], tuple[Network, Reading]]
    changed: Callable[[ChangeOfKind], Arguments]
    arrays: Callable[[Arguments], Sequence[Array]]
    results: Callable[[Any], Sequence[tuple[Array, str]]]


@dataclass(frozen=True)
class FrameworkRun:
    """A model as its framework runs it for a user: `call` on the `arguments` of the example.

    `wait(result)` returns a result when the device that computes it is done with all. `where` says
    in words where it runs.
    """

    call: Callable[..., Any] = field(repr=False)
    arguments: Arguments = field(repr=False)
    wait: Callable[[Any], Any] = field(default=lambda result: result, repr=False)
    where: str = IN_FRAMEWORK

    def on_example(self, call: Callable[..., Any]) -> Callable[[], Any]:
        """Return a call of the example, of the model as it is or optimized, to its end."""
        arguments, named = self.arguments
        return lambda: self.wait(call(*arguments, **named))


@dataclass(frozen=True)
class Network:
    """A graph, the arrays of its example inputs, and how it is called: `around(run, direct)` is a
    function like the model was.

    `itself` is the model as its framework runs it on the host, None where only einalg can;
    `examples` are the arguments of a call there. `signature` gives arguments that are given by name
    their places. `framework` says what the time of a call depends on there besides the graph;
    `original` is how the model is compared with it, and `run_for(target)` how a user runs it, where
    that is not `itself`. `read_ahead` are the weights on whose elements the graph itself depends.
    """

    graph: Graph
    arrays: list[Array] = field(repr=False)
    around: Callable[[Callable[..., Sequence[Array]], DirectCall | None], Callable[..., Any]] = (
        field(repr=False)
    )
    itself: Callable[..., Any] | None = field(default=None, repr=False)
    examples: Arguments = field(default=((), {}), repr=False)
    signature: Signature | None = field(default=None, repr=False)
    framework: str = ""
    original: Original | None = field(default=None, repr=False)
    read_ahead: frozenset[str] = frozenset()
    run_for: Callable[[str], FrameworkRun] | None = field(default=None, repr=False)

    def framework_run(self, target: str) -> FrameworkRun:
        """Return how the framework runs the model where it is optimized for a target.

        It is one that a framework runs.
        """
        if self.run_for is not None:
            return self.run_for(target)
        assert self.itself is not None
        return FrameworkRun(self.itself, self.examples)

    def bound(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
        """The arguments of a call as those of the example are given; `ShapeError` for names that
        the model does not have.
        """
        return bound(self.signature or signature_of(self.graph), arguments, named)


def signature_of(graph: Graph) -> Signature:
    """Return how a graph is called.

    It takes the names that the framework has for its inputs where all of them are words, else those
    of its tensors.
    """
    names: Sequence[str] = [tensor.name for tensor in graph.inputs]
    if graph.names and _are_keywords(graph.names[0]):
        names = graph.names[0]
    kind = Parameter.POSITIONAL_OR_KEYWORD
    return Signature([Parameter(name, kind) for name in names])


def _are_keywords(names: Sequence[str]) -> bool:
    """Say whether names can be those of arguments: different words that Python does not use."""
    if len(set(names)) < len(names):
        return False
    return all(name.isidentifier() and not iskeyword(name) for name in names)


def bound(signature: Signature, arguments: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
    """Arguments in the places of a signature; `ShapeError` where they do not fit it."""
    try:
        bound_arguments = signature.bind(*arguments, **named)
    except TypeError as error:
        raise ShapeError(
            f"the arguments do not fit: {error}\n  the inputs are {', '.join(signature.parameters)}"
        ) from None
    return bound_arguments.args, bound_arguments.kwargs
