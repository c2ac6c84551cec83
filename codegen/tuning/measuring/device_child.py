"""The process in which kernels run on a device: one that fails takes its context along.

As for a processor, it marks the candidate that runs, and a first run that takes too long ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from codegen.runtime.array_arguments import Array
from codegen.targets.cuda.device.driver import Driver, KernelStart
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.device.graph_cache import GraphCache
from codegen.targets.cuda.device.timing import repeated_seconds
from codegen.targets.cuda.device_types import device_dtype, from_device, to_device
from codegen.tuning.measuring.child import Alarm, difference, run_child
from codegen.tuning.measuring.device_task import DeviceCandidate, DeviceTask
from codegen.tuning.measuring.task import LASTING, MARKER, VALUES, Outcome, read_task
from codegen.tuning.value_comparison import fill_unlike
from einalg.runtime.measurement import Turn, measurement

TURNS = 9  # of each candidate


@dataclass(frozen=True)
class DeviceChild:
    """A task on a device, with the memory of its inputs there."""

    task: DeviceTask
    device: Driver
    memory: Mapping[str, Any]
    folder: Path
    marker: Any
    outcomes: TextIO

    @classmethod
    def of(cls, device: Driver, folder: Path, outcomes: TextIO) -> DeviceChild:
        task: DeviceTask = read_task(folder)
        memory: dict[str, Any] = {}
        last = task.candidates[0].kernels[-1].output
        for kernel in (kernel for one in task.candidates for kernel in one.kernels):
            for buf in kernel.inputs:
                if buf.name in task.arrays and buf.name not in memory:
                    array = to_device(task.arrays[buf.name], buf.dtype)
                    memory[buf.name] = device.allocate(array.nbytes)
                    if array.size:
                        device.upload(memory[buf.name].address, array)
        memory[last.name] = device.allocate(_bytes(last))
        marker = np.memmap(folder / MARKER, np.int64, "r+", shape=(1,))
        return cls(task, device, memory, folder, marker, outcomes)

    def run(self) -> None:
        """Run all candidates once, and those that have the right values in turns."""
        runs: dict[int, Callable[[], float]] = {}
        expected = self.task.expected
        for number, candidate in enumerate(self.task.candidates):
            self.marker[0] = number
            with Alarm(self.task.first_seconds):
                starts, memory = self.loaded(candidate)
                values = self.values(starts, expected)
            if expected is None:
                expected = values
                np.save(self.folder / VALUES, expected)
            reason = difference(values, expected, self.task.dtype)
            if reason is not None:
                self.tell(number, Outcome(reason=reason, strikes=LASTING))
                continue
            graphs = GraphCache(self.device)
            run = repeated_seconds(self.device, partial(_start, graphs, starts, memory))
            runs[number] = run
        self.measure(runs)

    def loaded(self, candidate: DeviceCandidate) -> tuple[list[KernelStart], Mapping[str, Any]]:
        """Return the kernels of a candidate with their addresses, and the memory that these are."""
        names = [how.name for how in candidate.launches]
        handles = self.device.load(candidate.image, names)
        memory = dict(self.memory)
        starts: list[KernelStart] = []
        for kernel, how, handle in zip(candidate.kernels, candidate.launches, handles):
            if kernel.output.name not in memory:
                memory[kernel.output.name] = self.device.allocate(_bytes(kernel.output))
            buffers = (*kernel.inputs, kernel.output)
            starts.append((handle, how, [memory[buf.name].address for buf in buffers]))
        return starts, memory

    def values(self, starts: Sequence[KernelStart], expected: Array | None) -> Array:
        """Return what a first run computes; elements that it does not write are none expected."""
        output = self.task.candidates[0].kernels[-1].output
        out = from_device(np.zeros(output.shape, device_dtype(output.dtype)), output.dtype)
        if expected is not None:
            fill_unlike(out, expected)
        address = self.memory[output.name].address
        there = to_device(out, output.dtype)
        self.device.upload(address, there)
        for start in starts:
            self.device.launch(*start)
        self.device.wait()
        there = np.empty(output.shape, device_dtype(output.dtype))
        self.device.download(there, address)
        return from_device(there, output.dtype)

    def measure(self, runs: Mapping[int, Callable[[], float]]) -> None:
        """Tell the times of candidates, which take turns."""
        turns: dict[int, list[Turn]] = {number: [] for number in runs}
        for _ in range(TURNS):
            for number, run in runs.items():
                self.marker[0] = number
                turns[number].append(Turn(run()))
        for number, recorded in turns.items():
            figures = measurement(recorded)
            self.tell(number, Outcome(figures.minimum, None, figures.spread, figures.busy))

    def tell(self, number: int, outcome: Outcome) -> None:
        self.outcomes.write(outcome.line(number))
        self.outcomes.flush()


def _start(
    graphs: GraphCache, starts: Sequence[KernelStart], memory: Mapping[str, Any], count: int
) -> None:
    """Start the kernels of a candidate so often, whose `memory` is alive meanwhile."""
    graphs.start([*starts] * count)


def _bytes(buf: Any) -> int:
    return prod(buf.shape) * device_dtype(buf.dtype).itemsize


def main(arguments: Sequence[str]) -> None:
    """Do the task of a folder on the device of this machine."""
    run_child(arguments, partial(DeviceChild.of, find_driver()))
