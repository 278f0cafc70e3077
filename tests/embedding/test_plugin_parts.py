"""What `PerdurePlugin` is given beside tools: models, roles, and queues for the loops alone."""

import json
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from installation import Installation
from pydantic import JsonValue
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from perdure import check
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest, Price
from perdure.domain.llm.transcript import Message, TextBlock
from perdure.domain.llm.usage import Usage
from perdure.embedding.given_parts import given_role
from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import Child, agent

EDITOR = "---\naccess: minimal\n---\nYou are the editor of the harbour gazette.\n"


FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))
STAGE: JsonValue = {"name": "write", "role": "editor", "prompt": "Write.", "model": "parrot"}
GAZETTE: dict[str, JsonValue] = {"name": "gazette", "roles": [STAGE]}


class Parrot:
    """A model of their own: it says what it was told of its role."""

    async def card(self, model: str) -> ModelProfile:
        """It costs nothing."""
        return ModelProfile(name=model, price=FREE)

    async def count(self, request: ModelRequest) -> int | None:
        """It does not count."""
        return None

    async def call(
        self, request: ModelRequest, *, on_text: Callable[[str], None], on_answer: Any = None
    ) -> ModelReply:
        """Say the name and the system prompt."""
        text = f"{request.model}: {request.system}"
        on_text(text)
        return ModelReply(
            message=Message(role="assistant", blocks=(TextBlock(type="text", text=text),)),
            stop_reason="end_turn",
            usage=Usage(input_tokens=5, output_tokens=5),
            model=request.model,
        )


@workflow.defn
class OnTheirQueue:
    """Awaits an agent that is started on another queue."""

    @workflow.run
    async def run(self, queue: str, model: str) -> str:
        result = await agent(
            "Speak.", child=Child(task_queue=queue), models={"executor": model}, recall=False
        )
        return str(result.output)


async def test_loops_are_served_on_a_queue_of_their_own(bare: Installation) -> None:
    loops, orders = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("loops", "orders"))
    plugin = PerdurePlugin(bare.settings, models={"parrot": Parrot()}, queues=[loops])
    client = await Client.connect(bare.address, plugins=[plugin])
    async with Worker(client, task_queue=orders, workflows=[OnTheirQueue]):
        told = await client.execute_workflow(
            OnTheirQueue.run, args=[loops, "parrot:grey"], id=orders, task_queue=orders
        )
    assert told.startswith("parrot:grey: ")


def test_the_workers_own_queue_is_left_alone(tmp_path: Path) -> None:
    plugin = PerdurePlugin(Settings.load(home=tmp_path), queues=["loops"])
    configured = plugin.configure_worker({"task_queue": "orders"})  # type: ignore[typeddict-item]
    assert not configured.get("workflows")
    assert not configured.get("activities")
    with pytest.raises(InvalidInput, match="polls loops, which is one of the `queues`"):
        plugin.configure_worker({"task_queue": "loops"})  # type: ignore[typeddict-item]


@pytest.mark.parametrize("queues", ["main", "", [""], [" "], ["a", "a"], [1], 3, [["a"]]], ids=str)
def test_what_names_no_queues_is_refused(tmp_path: Path, queues: Any) -> None:
    with pytest.raises(InvalidInput, match=r"queues: found .*each once, such as"):
        PerdurePlugin(Settings.load(home=tmp_path), queues=queues)


@pytest.mark.parametrize("as_file", [True, False], ids=["as files", "as they are"])
async def test_a_loop_and_a_role_of_their_own_speak(
    bare: Installation, tmp_path: Path, as_file: bool
) -> None:
    role, loop = tmp_path / "editor.md", tmp_path / "gazette.json"
    role.write_text(EDITOR)
    loop.write_text(json.dumps(GAZETTE))
    plugin = PerdurePlugin(
        bare.settings,
        models={"parrot": Parrot()},
        roles={"editor": role if as_file else EDITOR},
        definitions=[loop if as_file else GAZETTE],
    )
    client = await Client.connect(bare.address, plugins=[plugin])
    queue = f"gazette-{uuid.uuid4().hex[:8]}"
    task = {
        "goal": "Write the news.", "recall": False, "models": {"executor": "parrot"},
        "roles": {"definition": "gazette", "max_iterations": 1},
    }  # fmt: skip
    async with Worker(client, task_queue=queue, workflows=[OnTheirQueue]):
        told = await client.execute_workflow("RoleLoop", task, id=queue, task_queue=queue)
    assert "the editor of the harbour gazette" in str(told)


def test_a_definition_that_is_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="The definition gazette"):
        PerdurePlugin(Settings.load(home=tmp_path), definitions=[{"name": "gazette", "rolls": []}])


def _named_twice(*, other: bool) -> list[dict[str, Any]]:
    checks = [check(name="acme.short")(lambda output: len(output) < 9) for _ in range(2)]
    changed = {**GAZETTE, "description": "of the evening"} if other else {**GAZETTE}
    return [
        {"checks": checks if other else checks[:1] * 2},
        {"definitions": [GAZETTE, changed]},
    ]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [*((one, True) for one in _named_twice(other=True)),
     *((one, False) for one in _named_twice(other=False))],
    ids=["two checks", "two definitions", "a check twice", "a definition twice"],
)  # fmt: skip
def test_of_two_with_one_name_none_is_lost(
    tmp_path: Path, given: dict[str, Any], wrong: bool
) -> None:
    told = pytest.raises(InvalidInput, match=r"Two \w+ are named") if wrong else nullcontext()
    with told:
        PerdurePlugin(Settings.load(home=tmp_path), **given)


@pytest.mark.parametrize("name", ["openai", "local", "scripted", "Acme", "a:b"])
def test_a_model_has_a_name_of_its_own(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be called"):
        PerdurePlugin(Settings.load(home=tmp_path), models={name: Parrot()})


def test_a_role_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="The role editor has no system prompt"):
        PerdurePlugin(Settings.load(home=tmp_path), roles={"editor": "---\n---\n"})


@pytest.mark.parametrize(
    "written",
    [
        EDITOR.replace("\n", "\r\n"),
        EDITOR.replace("\n", "\r"),
        f"\n \n{EDITOR}",
        f"\ufeff{EDITOR}",
        EDITOR.replace("minimal", "minimal  # not full ---"),
    ],
    ids=["of Windows", "of old Macs", "blank lines first", "byte order mark", "a comment"],
)
def test_restrictions_hold_however_a_role_is_written(tmp_path: Path, written: str) -> None:
    file = tmp_path / "editor.md"
    file.write_bytes(written.encode())
    for given in (written, file):
        role = given_role("editor", given)
        assert (role.access, role.system) == ("minimal", given_role("editor", EDITOR).system)


@pytest.mark.parametrize("written", ["---\naccess: minimal\nYou edit.", "\n---\r\nYou", "---"])
def test_front_matter_without_an_end_is_refused(written: str) -> None:
    with pytest.raises(InvalidInput, match="The front matter of the role editor has no end"):
        given_role("editor", written)


def test_a_rule_between_paragraphs_is_no_front_matter() -> None:
    assert given_role("editor", "You edit.\n\n---\n\nBe brief.").access == "readonly"
