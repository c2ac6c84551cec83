"""Comparisons with a framework that ended well, kept on disk: what was compared once need not be
compared again.

The key holds all that results depend on: einalg's own code, the programs with their weights, the
kernels that run, the calls of the framework and its version, and what was asked for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from einalg.frontends.network import Network
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import VERIFICATION_CODE, Fingerprint, array_digest

LOG = logging.getLogger("einalg")
VERDICTS = DiskCache("verdicts", ".json", "comparisons with frameworks")


@dataclass(frozen=True)
class StoredVerdict:
    """A comparison: the `identity` of what ran, right; a digest of the given `inputs`; `notes` of
    what was found.

    `excluded` are the operators that stay the framework's, each with what is wrong. `seconds` are
    those after which it ended too soon; None where it was whole.
    """

    identity: str
    inputs: str
    notes: tuple[str, ...]
    excluded: Mapping[str, str]
    seconds: float | None = None

    def suits(self, seconds: float) -> bool:
        """Tell whether a comparison that may take `seconds` would not be a longer one."""
        return self.seconds is None or self.seconds >= seconds


def verdict_key(network: Network, run: Any, *wishes: object) -> str | None:
    """Return the key for a network as it was compiled at first; None where it is not known what its
    results depend on.
    """
    identity = identity_of(run)
    if identity is None or not network.framework:
        return None
    fingerprint = Fingerprint(VERIFICATION_CODE, libraries=(network.framework,))
    return fingerprint.key("verdict", identity, *map(repr, wishes))


def identity_of(run: Any) -> str | None:
    """Return a digest of all that results of compiled code depend on; None where it is not
    known.
    """
    function = getattr(run, "identity", None)
    return function and function()


def inputs_digest(network: Network) -> str:
    """Return a digest of the given inputs."""
    return array_digest((str(number), array) for number, array in enumerate(network.arrays))


def kept_verdict(key: str | None, seconds: float) -> StoredVerdict | None:
    """Return the verdict that was kept, unless there were fewer seconds for it than now."""
    content = None if key is None else VERDICTS.read(key)
    if content is None:
        return None
    try:
        row = json.loads(content)
        limit = None if row["seconds"] is None else float(row["seconds"])
        excluded = {str(origin): str(fault) for origin, fault in row["excluded"].items()}
        notes = tuple(map(str, row["notes"]))
        verdict = StoredVerdict(str(row["identity"]), str(row["inputs"]), notes, excluded, limit)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        LOG.warning(
            "einalg: a comparison in the cache is damaged (%s); the model is compared again", error
        )
        return None
    return verdict if verdict.suits(seconds) else None


def keep_verdict(key: str, verdict: StoredVerdict) -> None:
    """Keep a verdict on disk."""
    VERDICTS.replace(key, json.dumps(asdict(verdict)).encode())
