"""What every table of the report is made of."""

from dataclasses import dataclass

from benchmarks.pairing import Ratio

WHOLE_FROM = 100


@dataclass(frozen=True, slots=True)
class Table:
    """One table; the first column is text, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def at_most(
    name: str, found: float, most: float, *, unjudged: str | None = None
) -> tuple[str, ...]:
    """A row: a figure, and whether it stays below its bar."""
    kept = unjudged or ("yes" if found <= most else "no")
    return (name, figure(found), f"at most {most:g}", kept)


def at_least(
    name: str, found: float, least: float, *, unjudged: str | None = None
) -> tuple[str, ...]:
    """A row: a figure, and whether it reaches its bar."""
    kept = unjudged or ("yes" if found >= least else "no")
    return (name, figure(found), f"at least {least:g}", kept)


def spread(found: Ratio) -> str:
    """The middle ratio, and how far they lie apart."""
    return f"{found.median:.2f} ({found.least:.2f} to {found.most:.2f})"


def figure(value: float) -> str:
    """Large values without decimals."""
    return f"{value:,.0f}" if value >= WHOLE_FROM else f"{value:.3f}"
