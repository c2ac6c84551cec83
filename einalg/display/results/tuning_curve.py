"""The curve of a tuning: the seconds of the best so far, trial by trial."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 420, 120, 8  # of the picture
MIN_POINTS = 2


def tuning_curve_svg(curve: Sequence[tuple[int, float, float]]) -> str:
    """Return a picture of a curve, whose points are (trial, elapsed seconds, best seconds).

    Nothing where it has no two points.

    >>> picture = tuning_curve_svg([(1, 0.5, 2e-3), (2, 1.0, 1e-3)])
    >>> "polyline" in picture, tuning_curve_svg([])
    (True, '')
    """
    if len(curve) < MIN_POINTS:
        return ""
    first, last = curve[0], curve[-1]
    highest = max(seconds for _, _, seconds in curve)
    steps: list[str] = []
    height: float | None = None
    for trial, _, seconds in curve:
        x = MARGIN + (WIDTH - 2 * MARGIN) * (trial - first[0]) / max(1, last[0] - first[0])
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * seconds / highest
        if height is not None:
            steps.append(f"{x:.1f},{height:.1f}")
        steps.append(f"{x:.1f},{y:.1f}")
        height = y
    title = (
        f"best so far: {first[2] * 1e3:.3g} ms at trial {first[0]}, "
        f"{last[2] * 1e3:.3g} ms at trial {last[0]}"
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{title}">'
        f"<title>{title}</title>"
        f'<polyline points="{" ".join(steps)}" fill="none" stroke="currentColor"/></svg>'
    )
