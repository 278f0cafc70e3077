"""Two hosts of one installation: working folders are on one of them, and outlive it."""

import json
from collections.abc import Sequence

import pytest
from delegating import Reply, completes, delegates, delegation, script, works
from hosts import Host, Hosts, two_hosts
from provider import Play
from refining import events
from waiting import eventually

from perdure.domain.run.messages import Stop
from perdure.domain.run.result import RunResult

__all__ = ["two_hosts"]
WRITES = {"tools": {"access": "full", "allow": ["fs.write", "fs.list"]}}
FILES = 4


def _writing(body: dict[str, object]) -> Sequence[Play]:
    """One file a turn, then a look at all of them; an answer waits for the gate of its turn."""
    asked = json.dumps(body["messages"])
    done = asked.count('"tool_result"')
    if done < FILES:
        name = f"part-{done}.txt"
        arguments = {"path": name, "content": f"content {done}", "expected_hash": "absent"}
        return [Play(text="", calls=[("fs.write", arguments)], gate=f"turn {done}")]
    if done == FILES:
        return [Play(text="", calls=[("fs.list", {"path": "."})])]
    shown = json.dumps(body["messages"][-1])  # type: ignore[index]
    listed = all(f"part-{n}.txt" in shown for n in range(FILES))
    return [Play(text="all there" if listed else f"lacking: {shown}")]


async def _has_folder(made: Hosts) -> Host:
    """The one host that has a working folder."""

    await eventually(lambda: any(host.folders() for host in made.hosts))
    return next(host for host in made.hosts if host.folders())


async def _hands(made: Hosts, run: str) -> set[str]:
    """The workers that took the run's steps in its folder."""
    history = await made.ground.site.handle(run).fetch_history()
    steps = {"open_workspace", "call_tool", "snapshot"}
    in_folder = {
        event.event_id
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name in steps
    }
    started = (event.activity_task_started_event_attributes for event in history.events)
    return {one.identity for one in started if one.scheduled_event_id in in_folder}


async def _told(made: Hosts, run: str) -> set[str]:
    """What people could see happen."""
    return {event.type for event in await events(made.ground.site, run)}


async def _half_written(made: Hosts) -> tuple[str, Host]:
    """A run with two files written, whose next answer is held, and the host that has them."""
    made.ground.provider.choose = _writing
    run = await made.ground.start(**WRITES)
    _open(made, 0, 1)
    await made.ground.billed(3)
    return run, await _has_folder(made)


def _open(made: Hosts, *turns: int) -> None:
    for turn in turns:
        made.ground.provider.open(f"turn {turn}")


async def _ended(made: Hosts, run: str, **injected: int) -> RunResult:
    result = await made.ground.check(run, **injected)
    assert (result.outcome, result.output) == ("accepted", "all there"), result
    return result


@pytest.mark.long
async def test_a_run_finds_its_files_on_the_host_where_it_wrote_them(two_hosts: Hosts) -> None:
    two_hosts.ground.provider.choose = _writing
    _open(two_hosts, *range(FILES))
    for number in range(3):
        run = await two_hosts.ground.start(goal=f"write {number}", **WRITES)
        result = await two_hosts.ground.site.gateway.result(run)
        assert result.output == "all there"
        # The files of one machine are all in one tree here: who did the steps tells where they are.
        assert len(await _hands(two_hosts, run)) == 1
    at = [len(host.folders()) for host in two_hosts.hosts]
    assert sum(at) == 3, at


@pytest.mark.slow
async def test_files_outlive_their_host(two_hosts: Hosts) -> None:
    run, lost = await _half_written(two_hosts)
    await lost.worker.kill()
    _open(two_hosts, 2, 3)
    await _ended(two_hosts, run, kills=1)
    (other,) = [host for host in two_hosts.hosts if host is not lost]
    (folder,) = other.folders()
    assert sorted(one.name for one in folder.iterdir()) == [f"part-{n}.txt" for n in range(FILES)]
    assert "workspace_moved" in await _told(two_hosts, run)
    told = json.dumps([body["messages"] for body in two_hosts.ground.provider.bodies])
    assert "made anew from its last snapshot" in told


@pytest.mark.slow
async def test_a_folder_that_somebody_removed_is_made_anew(two_hosts: Hosts) -> None:
    run, host = await _half_written(two_hosts)
    for folder in host.folders():
        folder.rename(folder.with_name("elsewhere"))
    _open(two_hosts, 2, 3)
    await _ended(two_hosts, run)


@pytest.mark.slow
async def test_a_host_that_comes_back_is_found_where_it_was(two_hosts: Hosts) -> None:
    """A worker that is started again within the wait keeps the folder, ignored files included."""
    run, host = await _half_written(two_hosts)
    await host.worker.kill()
    await host.worker.start()
    _open(two_hosts, 2, 3)
    await _ended(two_hosts, run, kills=1)
    assert [len(one.folders()) for one in two_hosts.hosts if one is host] == [1]
    assert "workspace_moved" not in await _told(two_hosts, run)


@pytest.mark.slow
async def test_a_run_that_is_stopped_hands_over_the_files_of_a_host_that_is_gone(
    two_hosts: Hosts,
) -> None:
    run, lost = await _half_written(two_hosts)
    await lost.worker.kill()
    await two_hosts.ground.verb(run, Stop(mode="now"))
    _open(two_hosts, 2, 3)
    result = await two_hosts.ground.site.gateway.result(run)
    assert result.outcome == "stopped"
    patch = next(item.ref for item in result.artifacts if item.kind == "patch")
    told = await two_hosts.ground.site.parts.stores.blobs.get_text(patch)
    assert ("+content 0" in told, "+content 1" in told, "+content 2" in told) == (True, True, False)


@pytest.mark.slow
async def test_workers_read_the_managers_files_on_whatever_host_they_are(two_hosts: Hosts) -> None:
    site = two_hosts.ground.site
    readers = [f"r{number}" for number in range(6)]
    written = {"path": "bottle.json", "content": "of steel", "expected_hash": "absent"}
    replies = [
        delegates("writer"),
        _calls("writer", "fs.write", written),
        works("writer"),
        delegates(*readers, tools=["fs.read"]),
        *(_calls(name, "fs.read", {"path": "bottle.json"}) for name in readers),
        *(
            {**works(name), "when": {"role": "worker", "worker": name, "contains": "of steel"}}
            for name in readers
        ),
        completes(),
    ]
    access = {"access": "full", "allow": ["fs.write", "fs.read"]}
    run = await site.start(delegation(tools=access), script(*replies))
    result = await site.gateway.result(run)
    assert result.outcome == "accepted", result.explanation
    below = (await site.status(run)).runs_below
    assert {(one.name, one.outcome) for one in below} == {
        (name, "accepted") for name in ("writer", *readers)
    }


def _calls(worker: str, tool: str, arguments: dict[str, str]) -> Reply:
    """A worker's reply that calls a tool."""
    return {
        "when": {"role": "worker", "worker": worker},
        "tool_calls": [{"name": tool, "arguments": arguments}],
    }
