"""How figures and foreign text are written: money, tokens, times, scores, short lines."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from pydantic import JsonValue

from perdure.domain.foundation.names import short_model_name
from perdure.domain.foundation.plain_text import clipped_line, printable
from perdure.domain.run.result import Origin, ToolMetrics

BARS = "▁▂▃▄▅▆▇█"
REF_DIGITS = 12
NAMED = 10
"""How many of very many are named."""
CLOCKS_APART_S = 60.0
"""Clocks of hosts that are closer than this count as one."""
_CENT = Decimal("0.01")


def origin_words(origin: Origin | None) -> str | None:
    """Where a fork began."""
    return f"{origin.run}, after iteration {origin.iteration}" if origin else None


def one_line(text: str, limit: int = 100) -> str:
    """Foreign text on one line, cut to `limit` characters."""
    return clipped_line(printable(text), limit)


def money(value: Decimal | None) -> str:
    """USD with two digits, or as many as a small amount needs; `unknown` for None."""
    if value is None:
        return "unknown"
    if value == 0:
        return "$0"
    if value >= _CENT:
        return f"${value:.2f}"
    return (
        f"${value.quantize(Decimal('0.0001')).normalize():f}"
        if value >= _CENT / 100
        else "<$0.0001"
    )


def tokens(count: int) -> str:
    """`812`, `4.2k`, `38k`, `1.3M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        # Rounded first, as 999,999 is 1.0M and not 1000k.
        if count >= size - size // 2_000:
            scaled = count / size
            return f"{scaled:.0f}{unit}" if scaled >= 9.95 else f"{scaled:.1f}{unit}"
    return str(count)


def short_ref(address: str) -> str:
    """A short form of a blob address, long enough to tell blobs apart."""
    kind, _, digest = address.partition(":")
    return f"{kind}:{digest[:REF_DIGITS]}"


def model_name(name: str) -> str:
    """A model's name for people; a script by its label, else by the beginning of its address."""
    kind, _, rest = name.partition(":")
    if not rest.startswith(("sha256:", "hmac:")):
        return name
    label = rest.partition("#")[2]
    return f"{kind}:{label}" if label else short_model_name(name)


def plural(count: int, noun: str) -> str:
    """`1 call`, `3 calls`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def some_of(names: Sequence[str], limit: int = NAMED) -> str:
    """`a, b`; of very many only the first, with the number of the others."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for size, unit, rest, smaller in _UNITS:
        if whole >= size:
            left = whole % size // rest
            return f"{whole // size} {unit}" + (f" {left} {smaller}" if left else "")
    return f"{whole} s"


_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def tools_made_words(names: Sequence[str], metrics: ToolMetrics) -> str:
    """The tools that a run made, and what became of its other drafts; empty if it needed none."""
    if not (names or metrics.attempts):
        return ""
    counts = [f"of {plural(metrics.attempts, 'draft')}"] if metrics.attempts else []
    counts += [f"{metrics.cache_hits} known before"] if metrics.cache_hits else []
    if metrics.repairs_tried:
        counts.append(f"{metrics.repairs_won} of {plural(metrics.repairs_tried, 'repair')} held")
    stages = (f"{stage} {count}" for stage, count in sorted(metrics.failures.items()))
    failed = ", ".join(stages)
    counts += [f"failed checks: {failed}"] if failed else []
    told = one_line(", ".join(names), 200) or "none"
    return f"{told} ({'; '.join(counts)})" if counts else told


def ago(moment: datetime | None, now: datetime) -> str:
    """The time from `moment` to `now`; of another host's moment, how far its clock is ahead."""
    if moment is None:
        return ""
    passed = (now - moment).total_seconds()
    if passed < -CLOCKS_APART_S:
        return f"{duration(-passed)} ahead of this clock"
    return f"{duration(max(0.0, passed))} ago"


def roughly_ago(moment: datetime | None, now: datetime) -> str:
    """The time in its largest unit only: `18 min ago`, `3 d ago`."""
    if moment is None:
        return ""
    number, unit, *words = ago(moment, now).split(" ")
    rest = words if words[0] in {"ago", "ahead"} else words[2:]
    return f"{float(number):.0f} {unit} {' '.join(rest)}"


def score(value: float | None) -> str:
    """Two digits, never rounded up to 1.00; a dash for no score."""
    if value is None:
        return "–"
    # A reader would take 1.00 for a run that met everything.
    return f"{min(value, 0.99) if value < 1 else value:.2f}"


def sparkline(scores: Sequence[float | None]) -> str:
    """One bar for each score between 0 and 1; a dot for no score."""
    top = len(BARS) - 1
    return "".join(
        "·" if value is None else BARS[min(top, int(value * top + 0.5))] for value in scores
    )


def place_of(finding: JsonValue | Mapping[str, str]) -> str:
    """The place of a finding, if the judge named one."""
    place = finding.get("location") if isinstance(finding, Mapping) else None
    return f" (at {one_line(place)})" if isinstance(place, str) and place.strip() else ""


def cure_of(finding: JsonValue | Mapping[str, str], *, checked: bool) -> str:
    """What a judge suggests for a finding; for a check, which suggests nothing, its demand."""
    cure = finding.get("fix") if isinstance(finding, Mapping) else None
    if not isinstance(cure, str) or not cure.strip():
        return ""
    return f"  wanted: {one_line(cure)}" if checked else f"  → {one_line(cure)}"
