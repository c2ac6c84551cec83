"""TASO's rule files, `graph_subst.pb`, read by protobuf with the messages below."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from derive.substitutions.files.checking import checked_graph, operation, wrong_rule
from derive.substitutions.files.taso_numbers import (
    ACTIVATIONS,
    PADDINGS,
    SWAPPED,
    permutation,
    word,
)
from derive.substitutions.graphs.graph import Leaf, Operation, Port, Source
from derive.substitutions.verification.rule import Substitution
from einalg.errors import RecordError

MESSAGES = {
    "Tensor": ("opId:1", "tsId:2"),
    "Parameter": ("key:1", "value:2"),
    "Operator": ("type:1", "input:2:Tensor", "para:3:Parameter"),
    "MapOutput": ("srcOpId:1", "dstOpId:2", "srcTsId:3", "dstTsId:4"),
    "Rule": ("srcOp:1:Operator", "dstOp:2:Operator", "mappedOutput:3:MapOutput"),
    "RuleCollection": ("rule:1:Rule",),
}
OPERATORS = {
    3: "conv2d",
    6: "poolmax",
    7: "poolavg",
    8: "relu",
    9: "sigmoid",
    10: "tanh",
    12: "concat",
    13: "split",
    15: "transpose",
    16: "ewadd",
    17: "ewmul",
    18: "matmul",
    19: "smul",
    20: "enlarge",
    21: "merge",
    22: "const_imm",
    23: "const_iconv",
    24: "const_one",
    25: "const_pool",
}
WINDOWED = ("conv2d", "poolmax", "poolavg")
KERNELS = (*WINDOWED, "enlarge", "const_iconv", "const_pool")
ACTIVATED = ("conv2d", "poolmax", "poolavg", "matmul")
KERNEL, STRIDE, PADDING, ACTIVATION, RANK, AXIS, PERMUTATION, COUNT = (
    (4, 5),
    (6, 7),
    8,
    9,
    10,
    11,
    12,
    14,
)
REMEDY = "give TASO's graph_subst.pb as it was written, or rules as JSON"


def rules_of_protobuf(content: bytes) -> Iterator[Substitution]:
    """Yield the rules of a file, named by their places. Raises `RecordError` for what is none, or
    without protobuf.
    """
    collection = _collection_class()()
    try:
        collection.ParseFromString(content)
    except Exception as error:  # of protobuf, whose classes differ between its versions
        raise RecordError(f"the rules are no protobuf: {str(error)[:80]}\n  {REMEDY}") from None
    for place, rule in enumerate(collection.rule):
        yield _rule(str(place), rule)


def _rule(name: str, rule: Any) -> Substitution:
    sides = []
    for operators in (rule.srcOp, rule.dstOp):
        sides.append([_operation(name, operator) for operator in operators])
    outputs: list[tuple[Source, Source]] = []
    for output in rule.mappedOutput:
        one = _source(output.srcOpId, output.srcTsId)
        outputs.append((one, _source(output.dstOpId, output.dstTsId)))
    return Substitution.of_graph(name, checked_graph(name, sides, outputs, {}))


def _source(operation_number: int, output: int) -> Source:
    if operation_number < 0:
        return Leaf(-operation_number)
    return Port(operation_number, output)


def _operation(name: str, operator: Any) -> Operation:
    kind = OPERATORS.get(operator.type)
    if kind is None:
        known = ", ".join(f"{number} {word}" for number, word in OPERATORS.items())
        raise wrong_rule(name, f"operator {operator.type} is unknown", f"known are {known}")
    numbers = {parameter.key: parameter.value for parameter in operator.para}
    inputs = [_source(one.opId, one.tsId) for one in operator.input]
    return operation(kind, _parameters(name, kind, numbers), inputs)


def _parameters(name: str, kind: str, numbers: dict[int, int]) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    if kind in KERNELS and KERNEL[0] in numbers:
        parameters["kernel"] = tuple([numbers.get(key, 1) for key in KERNEL])
    if kind in WINDOWED:
        parameters["stride"] = tuple([numbers.get(key, 1) for key in STRIDE])
        parameters["pad"] = word(name, PADDINGS, numbers.get(PADDING, 0))
    if kind in ACTIVATED:
        parameters["act"] = word(name, ACTIVATIONS, numbers.get(ACTIVATION, 0))
    if kind in ("concat", "split") and AXIS in numbers:
        parameters["axis"] = numbers[AXIS]
    if kind == "concat" and RANK in numbers:
        parameters["ndim"] = numbers[RANK]
    if kind == "split":
        parameters["n"] = 2
    if kind == "merge" and COUNT in numbers:
        parameters["count"] = numbers[COUNT]
    if kind == "transpose":
        parameters["perm"] = SWAPPED
        if PERMUTATION in numbers:
            parameters["perm"] = permutation(name, numbers[PERMUTATION])
    return parameters


@cache
def _collection_class() -> Any:
    """Return the class of the messages of a file."""
    try:
        descriptors = import_module("google.protobuf.descriptor_pb2")
        pools = import_module("google.protobuf.descriptor_pool")
        factory = import_module("google.protobuf.message_factory")
    except ImportError:
        raise RecordError(
            "TASO's rule files need protobuf, which is not installed\n"
            "  pip install 'einalg[rules]', or give rules as JSON"
        ) from None
    file = descriptors.FileDescriptorProto(
        name="einalg_rules.proto", package="einalg_rules", syntax="proto2"
    )
    kinds = descriptors.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields:
            field, number, *of = text.split(":")
            if of:
                added = message.field.add(name=field, number=int(number), type=kinds.TYPE_MESSAGE)
                added.type_name, added.label = f".einalg_rules.{of[0]}", kinds.LABEL_REPEATED
            else:
                added = message.field.add(name=field, number=int(number), type=kinds.TYPE_INT32)
                added.label = kinds.LABEL_OPTIONAL
    pool = pools.DescriptorPool()
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName("einalg_rules.RuleCollection"))
