"""Choices of groups, and those whose channels are pairs of digits."""

from __future__ import annotations

from typing import Any

from derive.substitutions.files.loading import load
from derive.substitutions.graphs.taps import choices_of_taps
from derive.substitutions.graphs.typed_rule import typed
from derive.substitutions.sizes.sizing import OpenSizes
from tests.helpers.rule_files import conv, op, rule, write

CHANNELS = {"axis": 1, "ndim": 4}
FEATURES = {"axis": 0, "ndim": 4}
JOINED = [op("concat", 1, 2, **CHANNELS), conv("0", 3), conv(1, 4), conv(2, 5)]
EVERY: list[Any] = [{"src": [k, 0], "dst": [k, 0]} for k in (1, 2, 3)]
STACKED = rule(
    "stacked",
    [conv(1, 3), conv(2, 4), op("concat", "0", "1", **CHANNELS)],
    [op("concat", 1, 2, **CHANNELS), op("concat", 3, 4, **FEATURES), conv("0", "1")],
)


def open_sizes(path: Any) -> OpenSizes:
    (one,) = load(path)
    assert one.graph is not None
    graph = typed(one.graph)
    return OpenSizes(graph, next(choices_of_taps(graph)))


def test_equal_outputs_make_pairs(tmp_path: Any) -> None:
    sizes = open_sizes(write(tmp_path, STACKED))
    counts = {True: 0, False: 0}
    for sizing in sizes.of_some_groups():
        (one, outputs), (two, others), (both, joined) = sizing.groups
        is_pair = outputs == others == joined and one + two == both
        assert sizes.are_pairs(sizing) == is_pair
        counts[is_pair] += 1
    assert all(counts.values())


def test_parts_that_are_not_as_deep_make_no_pairs(tmp_path: Any) -> None:
    sizes = open_sizes(write(tmp_path, rule("joined", JOINED, JOINED, *EVERY)))
    assert len(sizes.channels) == 3  # the concatenations of both sides are of one size
    choices = list(sizes.of_some_groups())
    whole_groups = [x for x in choices if x.groups == ((2, 1), (1, 1), (1, 1))]
    assert whole_groups
    assert not any(map(sizes.are_pairs, whole_groups))
