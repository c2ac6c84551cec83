"""A Dask cluster on this machine, whose workers are reached over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def dask_client(workers: int = 1, threads: int = 1, processes: bool = False) -> Iterator[Any]:
    """Give a client of workers in threads of this process, or in processes of their own."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=processes,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
