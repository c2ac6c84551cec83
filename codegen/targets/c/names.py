"""C identifiers for the names of an expression."""

from __future__ import annotations

from dataclasses import dataclass, field

from codegen.targets.c.helpers import C_TYPES, RESERVED
from codegen.targets.c.vectors import VECTOR_NAME


@dataclass
class Names:
    """C identifiers for names of tensors and indices: the same wherever C allows it."""

    given: dict[tuple[str, str], str] = field(default_factory=dict)
    reserved: frozenset[str] = RESERVED

    def __call__(self, kind: str, name: str) -> str:
        if (kind, name) not in self.given:
            plain = "".join(ch if ch.isascii() else f"u{ord(ch):x}" for ch in name)
            while plain in self.reserved or plain in self.given.values() or _is_taken(plain):
                plain += "_"
            self.given[kind, name] = plain
        return self.given[kind, name]


def _is_taken(name: str) -> bool:
    return (
        name.startswith("kernel_")
        or name.endswith(tuple(C_TYPES))
        or VECTOR_NAME.fullmatch(name) is not None
    )
