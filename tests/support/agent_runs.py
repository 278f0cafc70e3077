"""Short words for tests of the agent loop: replies, what a model was shown, what was spent."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce
from operator import add

from installation import Installation

from perdure.domain.llm.transcript import Message, ToolResultBlock
from perdure.domain.llm.usage import Usage
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer
from perdure.domain.run.result import RunResult

Reply = Mapping[str, object]


def call(name: str, **arguments: object) -> Reply:
    """A tool call of a script."""
    return {"name": name, "arguments": arguments}


def calls(*wanted: Reply, **more: object) -> Reply:
    """A reply that asks for tools."""
    return {"tool_calls": list(wanted), **more}


def echo(word: str, **more: object) -> Reply:
    """A reply with one harmless call."""
    return calls(call("probe.echo", text=word), **more)


def script(*replies: Reply, **more: object) -> dict[str, object]:
    """A script of these replies."""
    return {"replies": list(replies), **more}


def task(**more: object) -> dict[str, object]:
    """An agent task; `agent` and the like are merged in."""
    return {"kind": "agent", "goal": "do it", **more}


async def conversation(site: Installation, head: str | None) -> tuple[Message, ...]:
    """The messages of a transcript."""
    assert head is not None
    return await site.parts.stores.transcripts.load(head)


async def results(site: Installation, result: RunResult) -> list[ToolResultBlock]:
    """All tool results that the model was shown, in their order."""
    return await results_in(site, result.transcript)


async def results_in(site: Installation, head: str | None) -> list[ToolResultBlock]:
    """All tool results of a conversation, such as a stage's."""
    return [
        block
        for message in await conversation(site, head)
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    ]


async def shown(site: Installation, result: RunResult) -> list[str]:
    """The texts of both sides, one string a message: `user: …`, `assistant: …`."""
    found = await conversation(site, result.transcript)
    return [f"{message.role}: {message.text}" for message in found if message.text]


async def books_agree(site: Installation, result: RunResult) -> None:
    """Journal, records and result name the same spend."""
    rows = await site.parts.stores.journal.rows(result.id)
    usage = reduce(add, (row.usage for row in rows), Usage())
    assert usage == result.spend.usage
    rows = [row for row in rows if row.sent]
    assert len(rows) == result.spend.model_calls
    costs = [row.cost_usd for row in rows]
    assert None not in costs
    assert sum((cost for cost in costs if cost is not None), Decimal(0)) == result.spend.cost_usd
    records = await site.records(result.id)
    assert [record.index for record in records] == list(range(1, result.iteration_count + 1))
    own = [record for record in records if record.origin is None]
    assert reduce(add, (record.usage for record in own), Usage()) == usage
    assert sum(record.model_calls for record in own) == len(rows)


async def gate_of(site: Installation, run: str, number: int = 0) -> Gate | None:
    """An open gate of a run, if there is one yet."""
    status = await site.status(run)
    return status.gates[number] if len(status.gates) > number else None


async def answer(site: Installation, run: str, gate: Gate, choice: str, text: str = "") -> None:
    """Answer as a person does who read the gate."""
    await site.gateway.verb(
        run,
        Answer(
            gate=gate.id, choice=choice or None, text=text or None, args_hash=gate.args_hash, by="t"
        ),
    )


async def event_types(site: Installation, run: str) -> Sequence[str]:
    """The types of all events of an ended run."""
    return [event.type async for event in site.gateway.events(run)]
