"""The kinds of convolutions that a program has: rules of files leave open which these are."""

from __future__ import annotations

from derive.matching import match, templates
from derive.programs.forms.rewriting.patterns import apart
from derive.programs.passes.normalise import is_elementwise
from derive.substitutions.sizes.sides import ConvolutionKind
from einalg.language.ir.program import Program

OF_ONE_TAP = ConvolutionKind((1, 1))  # which no matched operator tells from a product of matrices


def convolution_kinds(program: Program) -> tuple[ConvolutionKind, ...]:
    """Return the kinds of convolutions that a program may have.

    >>> import einalg as ea
    >>> x, K = ea.tensor("x", (1, 8, 9, 9)), ea.tensor("K", (12, 2, 3, 3))
    >>> program = ea.language.ir.program.as_program(ea.ops.conv2d(x, K, groups=4))
    >>> for kind in convolution_kinds(program):
    ...     print(kind)
    ConvolutionKind(taps=(1, 1), groups=1, depth=None, outputs=None)
    ConvolutionKind(taps=(3, 3), groups=4, depth=2, outputs=3)
    """
    kinds = {OF_ONE_TAP: None}
    for name, scope in apart(program).statements:
        if is_elementwise(scope):
            continue
        kernel = match(scope, name, templates("conv2d"))
        if kernel is None:
            continue
        sizes = kernel.sizes
        channels = (1, None, None)
        if sizes.get("groups", 1) > 1:
            channels = sizes["groups"], sizes["c"], sizes["f"]
        for taps in ((sizes["r"], sizes["s"]), (sizes["s"], sizes["r"])):
            kinds[ConvolutionKind(taps, *channels)] = None
    return tuple(kinds)
