"""A line chart as SVG: bytes of history by turn, on a logarithmic scale."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 110, 50, 50
COLOURS = ("#0b6e4f", "#3d5a98", "#b5402a", "#7a5195")


def line_chart(title: str, lines: Mapping[str, Sequence[int]], *, across: str, up: str) -> str:
    """Draw one line per name; values are positive, and belong to 1, 2, 3 and so on."""
    floor = 10 ** math.floor(math.log10(min(map(min, lines.values()))))
    ceiling = 10 ** math.ceil(math.log10(max(map(max, lines.values()))))
    most = max(map(len, lines.values()))

    def x(index: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (index - 1) / max(most - 1, 1)

    def y(value: float) -> float:
        share = math.log(value / floor) / max(math.log(ceiling / floor), 1e-9)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [_text(WIDTH / 2, 28, title, anchor="middle"), _text(LEFT, HEIGHT - 12, across)]
    parts.append(_text(8, TOP - 12, up))
    decade = floor
    while decade <= ceiling:
        parts.append(_path([(LEFT, y(decade)), (WIDTH - RIGHT, y(decade))], "#d0d0d0"))
        parts.append(_text(LEFT - 8, y(decade) + 4, f"{decade:,}", anchor="end"))
        decade *= 10
    for index in (1, (1 + most) // 2, most):
        parts.append(_text(x(index), HEIGHT - BOTTOM + 18, str(index), anchor="middle"))
    for number, (name, values) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(x(index), y(value)) for index, value in enumerate(values, start=1)]
        parts.append(_path(points, colour))
        parts.append(_text(points[-1][0] + 8, points[-1][1] + 4 + 7 * number, name, fill=colour))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", fill: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"'
    return f"<text {place}>{escape(words)}</text>"


def _path(points: Sequence[tuple[float, float]], colour: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
