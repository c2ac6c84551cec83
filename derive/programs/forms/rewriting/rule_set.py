"""The rules of an optimization: those that are proved, and why others are left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from derive.programs.forms.rewriting.patterns import RulePattern, patterns_of
from derive.substitutions import Rule, verify
from derive.substitutions.sizes.sides import ConvolutionKind
from einalg.errors import EinalgError, without_remedy
from einalg.runtime.clock import Clock, check_time
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import SEARCH_CODE, Fingerprint, text_digest

VERDICTS = DiskCache("substitutions", ".json", "verdicts on substitutions")
MAX_TOLD_RULES = 8  # that are left out, by name
MAX_MADE = 4096  # rules that are kept as patterns
NO_TIME = "there was no time to verify it"


@dataclass(frozen=True)
class RuleSet:
    """Proved rules; `notes` name the others, each with the reason. `identity` is a digest of those
    that are proved.
    """

    rules: tuple[Rule, ...] = ()
    notes: tuple[str, ...] = ()
    identity: str = ""

    def patterns(
        self,
        convolutions: Sequence[ConvolutionKind] = (),
        clock: Clock | None = None,
    ) -> list[RulePattern]:
        """Return the rules as patterns of a program with convolutions of some kinds, without those
        for which a clock leaves no time.
        """
        patterns = list[RulePattern]()
        for rule in self.rules:
            kinds: tuple[ConvolutionKind, ...] = ()
            if _has_convolutions(rule):
                kinds = tuple(convolutions)
            with (clock or Clock.of(inf)).bounding():
                check_time()
                patterns += _patterns(_Identified(identity(rule), rule), kinds)
        return patterns


def _has_convolutions(rule: Rule) -> bool:
    """Return whether the patterns of a rule depend on the convolutions of a program."""
    if rule.graph is None:
        return False
    return any(operation.operator == "conv2d" for operation in rule.graph.before)


@dataclass(frozen=True)
class _Identified:
    """A rule that equals others of one identity, though each load of a file makes objects."""

    identity: str
    rule: Rule = field(compare=False)


@lru_cache(maxsize=MAX_MADE)
def _patterns(
    identified: _Identified, convolutions: tuple[ConvolutionKind, ...]
) -> tuple[RulePattern, ...]:
    """Return a rule as patterns, made once; none for one of sizes that never fit."""
    try:
        return tuple(patterns_of(identified.rule, convolutions))
    except EinalgError:
        return ()


NO_RULES = RuleSet()


def rule_set(rules: Sequence[Rule], clock: Clock | None = None) -> RuleSet:
    """Verify rules, and return those that are proved, as far as the time of a clock allows.

    >>> import einalg as ea
    >>> right = Rule("right", "O[i] = A[i]*B[i] + A[i]", "O[i] = A[i]*(B[i]+1)", A=("N",), B=("N",))
    >>> wrong = Rule("wrong", "O[i] = A[i]*A[i]", "O[i] = 2*A[i]", A=("N",))
    >>> rules = rule_set([right, wrong])
    >>> [rule.name for rule in rules.rules], rules.notes
    (['right'], ('substitution wrong is left out: it is different at N = 1',))
    """
    proved, left_out = list[Rule](), list[tuple[str, str]]()
    for rule in rules:
        reason = NO_TIME
        with (clock or Clock.of(inf)).bounding():
            check_time()
            reason = _reason_against(rule)
        if reason:
            left_out.append((rule.name, reason))
        else:
            proved.append(rule)
    return RuleSet(tuple(proved), _notes(left_out), text_digest(*map(identity, proved)))


def identity(rule: Rule) -> str:
    """Return a text that tells a rule from others."""
    if rule.graph is not None:
        return repr((rule.name, rule.graph))
    sides = []
    for program in rule.sides:
        tensors = [(name, str(t.axes), t.dtype, t.role) for name, t in program.tensors.items()]
        sizes = [(name, size.bounds_text) for name, size in program.sizes.items()]
        sides.append((str(program), tensors, sizes))
    return repr((rule.name, sides))


def _reason_against(rule: Rule) -> str:
    """Return why a rule is no substitution; nothing where it is proved."""
    key = Fingerprint(SEARCH_CODE).key("verdict", identity(rule))
    content = VERDICTS.read(key)
    if content is not None:
        try:
            return str(json.loads(content)["reason"])
        except (ValueError, KeyError, TypeError):
            pass  # a damaged entry is written anew
    try:
        verdict = verify(rule)
    except EinalgError as error:
        return without_remedy(error)
    reason = "" if verdict else f"it is {verdict.verdict}"
    if verdict.counterexample and not verdict:
        reason += f" {verdict.counterexample_text}"
    VERDICTS.replace(key, json.dumps({"reason": reason}).encode())
    return reason


def _notes(left_out: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the rules that are left out in words."""
    notes = []
    for name, reason in left_out[:MAX_TOLD_RULES]:
        notes.append(f"substitution {name} is left out: {reason}")
    others = [name for name, _ in left_out[MAX_TOLD_RULES:]]
    if others:
        notes.append(f"so are {', '.join(others)}")
    return tuple(notes)
