"""Records of kernels, of which those in doubt are looked into once more by each process."""

from __future__ import annotations

from codegen.program.building.generated_code import KernelRecord, read_record, store_record
from codegen.tuning.kernel_choice import has_budget

_reviewed: set[str] = set()  # keys of inconclusive records that this process has looked into


def usable_record(key: str) -> KernelRecord | None:
    """Return a record; None for one in doubt while there is time to look into it once more."""
    record = read_record(key)
    if record is None or record.is_conclusive:
        return record
    if key in _reviewed or not has_budget():
        return record
    return None


def store_reviewed(key: str, record: KernelRecord) -> None:
    _reviewed.add(key)
    store_record(key, record)
