"""The scores of a run as a drawing: a point for each iteration, the threshold as a line.

Colours and strokes come from the stylesheet, because the content security policy forbids inline
styles.
"""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from perdure.interfaces.formatting import score as told_score

WIDTH, HEIGHT = 400, 180
LEFT, RIGHT, TOP, BOTTOM = 36, 16, 14, 26
RADIUS = 4
MOST_LABELS = 20


class Point(NamedTuple):
    """A scored iteration, and the decision after it."""

    iteration: int
    score: float
    decision: str


def score_plot(points: Sequence[Point], threshold: float | None) -> Markup | None:
    """Draw the plot; None with fewer than two scored iterations."""
    if len(points) < 2:
        return None
    parts = [_grid(mark) for mark in (0.0, 0.5, 1.0)]
    if threshold is not None:
        parts.append(_threshold(threshold))
    line = " ".join(f"{_x(points, at):.1f},{_y(one.score):.1f}" for at, one in enumerate(points))
    parts.append(Markup('<polyline class="line" points="{}"/>').format(line))
    best = max(one.score for one in points)
    parts += [_point(points, at, best) for at in range(len(points))]
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, _in_words(points, threshold), Markup("").join(parts))


def _point(points: Sequence[Point], at: int, best: float) -> Markup:
    one = points[at]
    fell = at > 0 and one.score < points[at - 1].score
    name = "best" if one.score == best else "fell" if fell else "point"
    x, y = _x(points, at), _y(one.score)
    told = f"iteration {one.iteration}: {told_score(one.score)}, {one.decision.replace('_', ' ')}"
    drawn = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>')
    found = drawn.format(name, x, y, RADIUS, told)
    if len(points) <= MOST_LABELS:
        label = Markup('<text x="{:.1f}" y="{}" class="mark middle">{}</text>')
        found += label.format(x, HEIGHT - 8, one.iteration)
    return found


def _grid(mark: float) -> Markup:
    drawn = Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
        '<text class="mark end" x="{}" y="{:.1f}">{:.1f}</text>'
    )
    y = _y(mark)
    return drawn.format(LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, mark)


def _threshold(value: float) -> Markup:
    drawn = Markup(
        '<line class="threshold" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
        '<text class="mark threshold" x="{}" y="{:.1f}">threshold {:g}</text>'
    )
    y = _y(value)
    return drawn.format(LEFT, WIDTH - RIGHT, y, y, LEFT + 2, y - 5, value)


def _in_words(points: Sequence[Point], threshold: float | None) -> str:
    best = max(points, key=lambda one: one.score)
    wanted = "" if threshold is None else f", threshold {threshold:g}"
    return (
        f"Scores of {len(points)} iterations, from {told_score(points[0].score)} to "
        f"{told_score(points[-1].score)}; best {told_score(best.score)} in iteration "
        f"{best.iteration}{wanted}"
    )


def _x(points: Sequence[Point], at: int) -> float:
    return LEFT + RADIUS + (WIDTH - LEFT - RIGHT - 2 * RADIUS) * at / (len(points) - 1)


def _y(value: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - max(0.0, min(1.0, value)))
