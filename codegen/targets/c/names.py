"""C identifiers for the names of an expression."""

from __future__ import annotations

from dataclasses import dataclass, field

from codegen.targets.c.functions.names import C_TYPES
from codegen.targets.c.helpers import RESERVED
from codegen.targets.c.vectors import VECTOR_NAME


@dataclass
class Names:
    """C identifiers for names of tensors and indices: the same wherever C allows it.

    `identifiers` has one for each kind and name: `α` of kind "index" becomes `u3b1`.
    """

    identifiers: dict[tuple[str, str], str] = field(default_factory=dict)
    reserved: frozenset[str] = RESERVED

    def __call__(self, kind: str, name: str) -> str:
        if (kind, name) not in self.identifiers:
            self.identifiers[kind, name] = self._free(_ascii(name))
        return self.identifiers[kind, name]

    def _free(self, name: str) -> str:
        """Return a name that nothing else has, with as many underscores as that takes."""
        used_names = self.identifiers.values()
        while name in self.reserved or name in used_names or _is_generated(name):
            name += "_"
        return name


def _ascii(name: str) -> str:
    text = ""
    for character in name:
        if character.isascii():
            text += character
        else:
            text += f"u{ord(character):x}"
    return text


def _is_generated(name: str) -> bool:
    """Return whether generated code itself may use a name: of an entry, a helper or a vector."""
    return (
        name.startswith("kernel_")
        or name.endswith(tuple(C_TYPES))
        or VECTOR_NAME.fullmatch(name) is not None
    )
