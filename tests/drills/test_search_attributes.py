"""Search attributes of Perdure's names that somebody else took, or changed: told with the cure."""

import asyncio
import shlex
import sys
from pathlib import Path

import pytest
from ground import Ground
from installation import installation
from namespaces import registered
from provider import MODEL, Play
from temporalio.client import Client
from waiting import eventually

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.domain.specs import RUN_SPEC
from perdure.local_services.register_search_attributes import (
    register_search_attributes,
    search_attributes,
)
from perdure.operations.doctor import _attributes

TEMPORAL = Path(sys.executable).parent / "temporal"
REFINES = {
    "kind": "refine",
    "goal": "Say it.",
    "models": {"executor": MODEL},
    "learn": False,
    "rubric": [{"name": "said", "evaluator": {"check": "contains", "all": ["done"]}}],
}


async def temporal(address: str, *words: str) -> None:
    """Say something with Temporal's command line; it must be understood."""
    process = await asyncio.create_subprocess_exec(
        str(TEMPORAL), *words, "--address", address,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


async def follow(told: str, address: str) -> None:
    """Carry out the commands that stand in backquotes."""
    for command in told.split("`")[1].split(" && "):
        program, *words = shlex.split(command)
        assert program == "temporal"
        await temporal(address, *words)


async def mistype(address: str, namespace: str) -> None:
    """What somebody else does: the name with another type."""
    attribute = ("operator", "search-attribute")
    there = ("--namespace", namespace, "--name", "PerdureScore")
    await temporal(address, *attribute, "remove", "--yes", *there)
    await temporal(address, *attribute, "create", "--type", "Keyword", *there)


@pytest.mark.slow
async def test_a_run_whose_attribute_got_another_type_says_what_makes_it_go_on(
    drill: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await registered(drill.site.client)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", name)
    drill.provider.plays = [Play(text="done", gate="held")]
    address = drill.site.address
    async with (
        installation(
            drill.site.home, address,
            anthropic_base_url=drill.provider.url, anthropic_api_key="loopback",
        ) as site,
        site.worker(),
    ):  # fmt: skip
        run = await site.gateway.start(RUN_SPEC.validate_python(REFINES))
        await drill.billed(1)
        await mistype(address, name)
        check = await _attributes(site.settings)
        assert (check.state, "PerdureScore should be Double and is Keyword" in check.found) == (
            "failed",
            True,
        )
        drill.provider.open("held")

        async def troubled() -> bool:
            return "PerdureScore" in ((await site.status(run)).trouble or "")

        await eventually(troubled)
        told = (await site.status(run)).trouble
        assert told is not None
        assert "the run is not lost" in told
        await follow(told, address)
        assert (await site.gateway.result(run)).outcome == "accepted"
        assert (await _attributes(site.settings)).state == "ok"


async def test_a_namespace_with_names_of_other_types_is_refused_and_stays_as_it_is(
    drill: Ground,
) -> None:
    name, address = await registered(drill.site.client), drill.site.address
    words = ("--namespace", name, "--name", "PerdureScore", "--type", "Keyword")
    await temporal(address, "operator", "search-attribute", "create", *words)
    there = await Client.connect(address, namespace=name)
    with pytest.raises(RuntimeUnavailable, match="PerdureScore should be Double") as refused:
        await register_search_attributes(there)
    assert list(await search_attributes(there)) == ["PerdureScore"]
    await follow(refused.value.cure or "", address)
    await register_search_attributes(there)


async def test_a_namespace_without_room_says_that_rights_are_not_what_is_missing(
    drill: Ground,
) -> None:
    name, address = await registered(drill.site.client), drill.site.address
    theirs = [word for n in range(5) for word in ("--name", f"Theirs{n}", "--type", "Keyword")]
    await temporal(address, "operator", "search-attribute", "create", "--namespace", name, *theirs)
    there = await Client.connect(address, namespace=name)
    with pytest.raises(RuntimeUnavailable, match="cannot have more than 10") as refused:
        await register_search_attributes(there)
    assert "a namespace of its own" in (refused.value.cure or "")
