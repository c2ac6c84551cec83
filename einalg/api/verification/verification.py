"""Models compared with their framework, whose results decide: an operator for which einalg deviates
stays the framework's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from einalg.api.verification.comparison import ModelComparison, Run, Wishes
from einalg.api.verification.verdicts import (
    StoredVerdict,
    identity_of,
    inputs_digest,
    keep_verdict,
    kept_verdict,
    verdict_key,
)
from einalg.frontends.network import Network
from einalg.frontends.reading import Reading

LOG = logging.getLogger("einalg")
MAX_ROUNDS = 6  # of finding an operator at fault and compiling what is left
INTERRUPTED = "not compared with its framework: that was interrupted"
Compiler = Callable[[Network], Run]


@dataclass(frozen=True)
class Verified:
    """A model compiled: `run` computes it as its framework does, where it `is_right`.

    `notes` say in words on what it was compared, and what was found; it `is_compared` unless that
    was interrupted.
    """

    network: Network
    run: Run
    notes: tuple[str, ...] = ()
    is_right: bool = True
    is_compared: bool = True


def verified(network: Network, compiler: Compiler, wishes: Wishes) -> Verified:
    """Return a model compiled and compared with its framework, as it is where there is none.

    Operators for which it deviates stay calls of the framework, and forms of programs that deviate
    are not taken. It is not right where neither helps. What was compared before, with all that
    results depend on as it is now, is right: on other given inputs, these alone are compared.
    """
    run = compiler(network)
    if network.original is None or network.itself is None:
        return Verified(network, run)
    key = verdict_key(network, run, wishes.accuracy, wishes.nonfinite)
    verdict = kept_verdict(key, wishes.seconds)
    if verdict is not None:
        known = _known(network, run, compiler, wishes, verdict)
        if known is not None:
            return known
    comparison = ModelComparison(network, wishes)
    result = _compared(comparison, network, run, compiler)
    if result.is_right and result.is_compared:
        _keep(key, network, result, comparison)
    return result


def _keep(key: str | None, network: Network, result: Verified, comparison: ModelComparison) -> None:
    """Keep a verdict where it is known what it depends on."""
    identity = identity_of(result.run)
    if key is None or identity is None:
        return
    verdict = StoredVerdict(
        identity,
        inputs_digest(network),
        result.notes,
        comparison.excluded,
        comparison.ended_after,
    )
    keep_verdict(key, verdict)


def _known(
    network: Network, run: Run, compiler: Compiler, wishes: Wishes, verdict: StoredVerdict
) -> Verified | None:
    """Return a model for which there is a verdict; None where that is not for what is compiled, or
    the given inputs tell another one.
    """
    assert network.original is not None
    reading = None
    if verdict.excluded:
        network, reading = network.original.again(verdict.excluded)
        run = compiler(network)
    if identity_of(run) != verdict.identity:
        return None
    if reading is not None:
        _warn(reading, verdict.excluded)
    if inputs_digest(network) == verdict.inputs:
        return Verified(network, run, verdict.notes)
    comparison = ModelComparison(network, wishes, is_brief=True)
    try:
        if comparison.faults(network, run, verdict.excluded) is not None:
            return None
    except KeyboardInterrupt:
        return _interrupted(network, run)
    return Verified(network, run, (*comparison.notes({}), *verdict.notes))


def _interrupted(network: Network, run: Run) -> Verified:
    """Return a model that is not compared to the end."""
    LOG.warning("einalg: interrupted; the model is not compared with its framework")
    return Verified(network, run, (INTERRUPTED,), is_compared=False)


def _compared(
    comparison: ModelComparison, network: Network, run: Run, compiler: Compiler
) -> Verified:
    excluded = comparison.excluded
    for _ in range(MAX_ROUNDS):
        try:
            faults = comparison.faults(network, run, excluded)
        except KeyboardInterrupt:
            return _interrupted(network, run)
        if faults is None:
            return Verified(network, run, comparison.notes(excluded))
        if faults.replaced is not None:
            run = faults.replaced
        elif faults.nodes:
            _warn(comparison.reading(excluded), faults.nodes)
            excluded.update(faults.nodes)
            assert network.original is not None
            network = network.original.again(excluded)[0]
            run = compiler(network)
        else:
            break
    return Verified(network, run, comparison.notes(excluded), is_right=False)


def _warn(reading: Reading, nodes: Mapping[str, str]) -> None:
    for origin, fault in nodes.items():
        LOG.warning("einalg: %s stays a call: %s", reading.operator(origin), fault)
