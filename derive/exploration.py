from dataclasses import dataclass


@dataclass(frozen=True)
class Explored:
    number: int
    parent: int | None
    move: str
    distance: float
    candidate: bool
    seconds: float | None
