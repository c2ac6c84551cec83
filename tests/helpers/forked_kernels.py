"""Kernels of notebooks that begin as copies of one process: it has imported and prepared what most
notebooks need.

In them kernels are compiled quickly, and searches of layers and measurements are short.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import einalg as ea
from tests.helpers import kernel_request
from tests.helpers.kernels import compile_quickly
from tests.helpers.measurements import shorten_measurements
from tests.helpers.searches import shorten_layer_searches

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def forked_kernels() -> Iterator[Sequence[str]]:
    """Yield the command of a kernel, as Jupyter states it, while the process is there of which
    kernels are copies.
    """
    with (
        tempfile.TemporaryDirectory(prefix="einalg-") as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        address = str(Path(folder) / "kernels")
        listener.bind(address)
        listener.listen()
        with subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno())],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        ) as process:
            request = Path(kernel_request.__file__)
            yield [sys.executable, "-I", "-S", str(request), address, "-f", "{connection_file}"]
            assert process.stdin is not None
            process.stdin.close()


def serve(listener: socket.socket) -> None:
    """Start a kernel for each request, until the standard input ends."""
    prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            run_kernel(connection)
        connection.close()


def prepare() -> None:
    """Do what most notebooks would do once: this process is changed for good."""
    import matplotlib.pyplot  # noqa: F401  with the kernel: the extra `notebook`
    from ipykernel.kernelapp import IPKernelApp  # noqa: F401

    patches = pytest.MonkeyPatch()
    compile_quickly(patches)
    shorten_layer_searches(patches)
    shorten_measurements(patches)
    product = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3))
    ea.Session(product).moves()
    ea.derive(product, states=1, measure=False)
    gc.collect()
    gc.freeze()


def run_kernel(connection: socket.socket) -> None:
    """Be a kernel until it is shut down, or until the process that asked for it ends."""
    from ipykernel.kernelapp import IPKernelApp

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = json.loads(connection.recv(1 << 16))
    threading.Thread(target=end_with, args=(connection,), daemon=True).start()
    os.chdir(request["folder"])
    IPKernelApp.launch_instance([*request["arguments"], "--IPKernelApp.parent_handle=1"])
    os._exit(0)


def end_with(connection: socket.socket) -> None:
    """End this process when the other end of a connection is closed."""
    connection.recv(1)
    os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
