"""The tables and bars of what durability costs: replay, many loops, memory, recovery, peers."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from benchmarks.at_once import AtOnce
from benchmarks.beside_peers import BesidePeers, PeerCost
from benchmarks.control import Control
from benchmarks.fairness import Fairness
from benchmarks.memory import Memory
from benchmarks.recovery import Recoveries, Recovery
from benchmarks.replaying import Replays
from benchmarks.tables import Table, at_least, at_most, spread

MOST_PER_EVENT, MOST_RESUME_MS = 1.25, 500
LEAST_AT_ONCE, MOST_TAIL = 0.8, 5
MOST_MEMORY, MOST_GROWTH = 1.5, 1.1
SLACK_S = 2
MOST_HOPS = 2
MOST_BESIDE = 3


class Measured(Protocol):
    """What of a report is shown here."""

    @property
    def replays(self) -> Replays | None: ...
    @property
    def at_once(self) -> Sequence[AtOnce]: ...
    @property
    def memory(self) -> Memory | None: ...
    @property
    def recoveries(self) -> Recoveries | None: ...
    @property
    def control(self) -> Control | None: ...
    @property
    def fairness(self) -> tuple[Fairness, ...]: ...
    @property
    def beside_peers(self) -> BesidePeers | None: ...
    @property
    def missing_peers(self) -> Sequence[str]: ...


def durability_bars(report: Measured, *, busy: str | None) -> Iterator[tuple[str, ...]]:
    """Aims; those of times and memory are not judged where others used the machine."""
    if (replays := report.replays) is not None:
        ours = replays.costs[0]
        name = "B4 replay of an event, to delta"
        yield at_most(name, replays.per_event.median, MOST_PER_EVENT, unjudged=busy)
        name = f"B4 ms, cold resume of {ours.turns} iterations"
        yield at_most(name, ours.resume_ms, MOST_RESUME_MS, unjudged=busy)
    for crowd in report.at_once:
        for baseline, found in (("delta", crowd.to_delta), ("three queues", crowd.to_spread)):
            name = f"B5 {crowd.loops} loops, turns a second to {baseline}"
            yield at_least(name, found.median, LEAST_AT_ONCE, unjudged=busy)
        ours = crowd.sides[0]
        yield at_most(f"B5 {crowd.loops} loops, p99 / p50", ours.tail, MOST_TAIL, unjudged=busy)
        yield at_most(f"B5 {crowd.loops} loops, workflow tasks timed out", ours.timeouts, 0)
    if (memory := report.memory) is not None:
        yield at_most("B6 memory of a waiting loop, to delta", memory.to_delta, MOST_MEMORY)
        kept = memory.kept[0]
        grown = kept.late_kib / kept.early_kib
        name = f"B6 memory after {memory.late_turns} turns, to after {memory.early_turns}"
        yield at_most(name, grown, MOST_GROWTH)
    if (recoveries := report.recoveries) is not None:
        asked, answered = (one for one in recoveries.found if one.side == "perdure")
        most = recoveries.heartbeat_s + recoveries.sticky_s + SLACK_S
        yield at_most("B7 s to the next call after kill -9", asked.seconds, most, unjudged=busy)
        # The call in flight is the provider's to bill again, whoever asked; no other one is.
        yield at_most("B7 calls paid twice, killed when asked", asked.paid_twice, 1)
        yield at_most("B7 calls paid twice, killed when answered", answered.paid_twice, 0)
    if (control := report.control) is not None:
        name = "B7 from resuming to the next call, to hand-written"
        yield at_most(name, control.resume.median, MOST_HOPS, unjudged=busy)
    for found in report.fairness:
        told = f"a run beside {found.loops} loops of another tenant, to alone"
        name = f"B9 {found.slots} slots, {told}"
        yield at_most(name, found.beside.median, MOST_BESIDE, unjudged=busy)


def durability_tables(report: Measured) -> Iterator[Table]:
    """One table for each figure that was measured."""
    if report.replays is not None:
        yield _replays(report.replays)
    if report.at_once:
        yield _at_once(report.at_once)
    if report.memory is not None:
        yield _memory(report.memory)
    if report.recoveries is not None:
        yield _recoveries(report.recoveries)
    if report.control is not None:
        yield _control(report.control)
    for fairness in report.fairness:
        yield _fairness(fairness)
    if report.beside_peers is not None:
        yield _beside_peers(report.beside_peers)
        yield _versions(report.beside_peers)
    if report.missing_peers and (report.beside_peers or report.recoveries):
        missing = tuple((name, "make bench-peers") for name in report.missing_peers)
        yield Table("Peers that are not built here", ("peer", "builds it"), missing)


def _replays(found: Replays) -> Table:
    rows = tuple(
        (
            cost.side,
            str(cost.turns),
            str(cost.executions),
            f"{cost.events:,}",
            f"{cost.resume_ms:.0f}",
            f"{cost.per_thousand_ms:.0f}",
        )
        for cost in found.costs
    )
    last = ("perdure / delta", "", "", "", "", spread(found.per_event))
    columns = ("side", "turns", "executions", "events", "resume ms", "ms per 1,000 events")
    return Table("B4: replay of the longest history of a run", columns, (*rows, last))


def _at_once(crowds: Sequence[AtOnce]) -> Table:
    rows: list[tuple[str, ...]] = []
    for crowd in crowds:
        rows += [
            (
                f"{crowd.loops} loops, {crowd.turns} turns: {side.side}",
                f"{side.per_second:.1f}",
                f"{side.tail:.1f}",
                str(side.timeouts),
            )
            for side in crowd.sides
        ]
        rows += [
            ("perdure / delta", spread(crowd.to_delta), "", ""),
            ("perdure / delta on three queues", spread(crowd.to_spread), "", ""),
        ]
    columns = ("loops at once", "turns a second", "p99 / p50 of a turn", "tasks timed out")
    return Table("B5: many loops at once", columns, tuple(rows))


def _memory(found: Memory) -> Table:
    rows = tuple((one.side, f"{one.early_kib:.0f}", f"{one.late_kib:.0f}") for one in found.kept)
    columns = ("side", f"after {found.early_turns} turns", f"after {found.late_turns} turns")
    return Table(f"B6: KiB of each of {found.loops} waiting loops", columns, rows)


def _recoveries(found: Recoveries) -> Table:
    columns = (
        "side, killed when the provider has",
        "s to the next call",
        "of them s of start",
        "calls paid twice",
        "lost calls on its books",
    )
    title = (
        f"B7: kill -9 in a model call; heartbeat {found.heartbeat_s:g} s, "
        f"sticky timeout {found.sticky_s:g} s"
    )
    return Table(title, columns, tuple(map(_recovery_row, found.found)))


def _recovery_row(one: Recovery) -> tuple[str, ...]:
    return (
        f"{one.side}: {one.moment}",
        f"{one.seconds:.1f}",
        f"{one.boot_s:.1f}",
        str(one.paid_twice),
        "keeps none" if one.on_its_books is None else str(one.on_its_books),
    )


def _control(found: Control) -> Table:
    rows = tuple((one.side, f"{one.pause_ms:.0f}", f"{one.resume_ms:.0f}") for one in found.sides)
    last = ("perdure / hand-written", "", spread(found.resume))
    columns = ("side", "pause: ms to the last call", "resume: ms to the next call")
    return Table("B7: control", columns, (*rows, last))


def _fairness(found: Fairness) -> Table:
    columns = ("run of two calls", "s", "to alone")
    rows = (
        ("alone", f"{found.alone_s:.1f}", "1"),
        (f"beside {found.loops} loops", f"{found.beside_s:.1f}", spread(found.beside)),
    )
    return Table(f"B9: tenants, on a worker with {found.slots} slots a queue", columns, rows)


def _beside_peers(found: BesidePeers) -> Table:
    columns = (
        "side",
        "wall / delta",
        "CPU / delta",
        "ms",
        "slope",
        "CPU ms",
        "slope",
        "events",
        "slope",
        "bytes",
        "slope",
    )
    title = f"P2: a turn beside the peers, over {found.turns} turns; medians, and what each adds"
    return Table(title, columns, tuple(map(_peer_row, found.costs)))


def _versions(found: BesidePeers) -> Table:
    rows = tuple((cost.side, cost.versions) for cost in found.costs if cost.versions)
    return Table("P2: versions of the peers", ("peer", "packages"), rows)


def _peer_row(cost: PeerCost) -> tuple[str, ...]:
    return (
        cost.side,
        f"{cost.wall.median:.2f}",
        f"{cost.cpu.median:.2f}",
        f"{cost.turn_ms:.1f}",
        f"{cost.turn_ms_slope:+.2f}",
        f"{cost.cpu_ms:.1f}",
        f"{cost.cpu_ms_slope:+.3f}",
        f"{cost.events:.2f}",
        f"{cost.events_slope:+.2f}",
        f"{cost.size:,.0f}",
        f"{cost.size_slope:+,.0f}",
    )
