"""Line charts as SVG, with a logarithmic scale for sizes and a linear one for scores.

A chart is a whole file, on white; where a page holds it, its stylesheet replaces the colours by the
classes of the parts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 170, 50, 50
LINE_HEIGHT = 14
COLOURS = ("#0b6e4f", "#3d5a98", "#b5402a", "#7a5195")


@dataclass(frozen=True, slots=True)
class Scale:
    """The marks of an axis from lowest to highest, and the position of a value between them."""

    marks: tuple[float, ...]
    share: Callable[[float], float]
    label: str


def log_scale(values: Sequence[float]) -> Scale:
    """Whole powers of ten around positive values."""
    low = math.floor(math.log10(min(values)))
    # At least one power apart, or equal values would divide by 0.
    high = max(math.ceil(math.log10(max(values))), low + 1)
    marks = tuple(10.0**power for power in range(low, high + 1))
    return Scale(marks, lambda value: (math.log10(value) - low) / (high - low), ",.0f")


def share_scale() -> Scale:
    """From 0 to 1 in steps of a fifth."""
    return Scale(tuple(step / 5 for step in range(6)), lambda value: value, ".1f")


def line_chart(
    title: str, lines: Mapping[str, Sequence[float]], *, across: str, up: str, scale: Scale
) -> str:
    """Draw one line for each name; the values of a line belong to 1, 2, 3 and so on.

    The classes are `back`, `grid`, and for the lines with their names `line0` to `line3`.
    """
    most = max(map(len, lines.values()))

    def x(index: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (index - 1) / max(most - 1, 1)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * scale.share(value)

    parts = [_text(WIDTH / 2, 28, title, anchor="middle"), _text(LEFT, HEIGHT - 12, across)]
    parts.append(_text(8, TOP - 12, up))
    for mark in scale.marks:
        parts.append(_path([(LEFT, y(mark)), (WIDTH - RIGHT, y(mark))], "#d0d0d0", "grid"))
        parts.append(_text(LEFT - 8, y(mark) + 4, format(mark, scale.label), anchor="end"))
    for index in sorted({1, (1 + most) // 2, most}):
        parts.append(_text(x(index), HEIGHT - BOTTOM + 18, str(index), anchor="middle"))
    places = _apart([y(values[-1]) for values in lines.values()])
    for number, (name, values) in enumerate(lines.items()):
        colour, of = COLOURS[number % len(COLOURS)], f"line{number % len(COLOURS)}"
        points = [(x(at), y(value)) for at, value in enumerate(values, 1)]
        parts.append(_path(points, colour, of))
        if len(values) == 1:  # a line with one point is invisible
            place = f'cx="{x(1):.1f}" cy="{y(values[0]):.1f}"'
            parts.append(f'<circle class="{of}" {place} r="4" fill="{colour}"/>')
        named = _text(x(len(values)) + 8, places[number] + 4, name, fill=colour, of=of)
        parts.append(named)
    told = quoteattr(f"{title}: {up} after each {across}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label={told} font-family="sans-serif" font-size="12">'
        '<rect class="back" width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _apart(places: Sequence[float]) -> list[float]:
    """The positions of labels, moved down where they would overlap."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    found = list(places)
    for above, below in pairwise(order):
        found[below] = max(found[below], found[above] + LINE_HEIGHT)
    return found


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", fill: str = "#222", of: str = "word"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"'
    return f'<text class="{of}" {place}>{escape(words)}</text>'


def _path(points: Sequence[tuple[float, float]], colour: str, of: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    drawn = f'fill="none" stroke="{colour}" stroke-width="1.5"'
    return f'<polyline class="{of}" points="{places}" {drawn}/>'
