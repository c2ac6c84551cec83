"""Models in onnxruntime, with as many threads as generated code has.

A runtime with more of them is compared with code that has fewer, and its idle threads wait busily
on the cores of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from einalg.frontends.onnx.nodes.model_file import onnxruntime_package
from einalg.runtime.processors import core_count, thread_count

FATAL_ERRORS_ONLY = 4  # a level of onnxruntime's log
RUNTIMES_CHOICE = 0  # of the number of threads


def session(model: Any, is_silent: bool = False) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return a model as a function of arrays by name, by onnxruntime, which must be installed.

    Raises what onnxruntime raises for a model that it does not run; where it `is_silent`, it logs
    none of that.
    """
    runtime = onnxruntime_package()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = session_threads()
    if is_silent:
        options.log_severity_level = FATAL_ERRORS_ONLY
    made = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: made.run(None, dict(inputs))


def session_threads() -> int:
    """Return the number of threads of a session: the runtime's choice unless fewer are asked for.

    >>> 0 <= session_threads() < core_count()
    True
    """
    threads = thread_count()
    if threads < core_count():
        return threads
    return RUNTIMES_CHOICE
