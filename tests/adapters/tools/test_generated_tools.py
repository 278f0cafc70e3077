"""Made tools as a source: by granted hash alone, verified before each call, in the sandbox."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from drafts import TEXT_SCHEMA, draft, returning

from perdure.adapters.sandbox.generated_tools import MadeToolSandbox
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.tools.generated_tools import MadeTools
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.generated_tools.draft import PIPELINE
from perdure.domain.generated_tools.record import GeneratedTool, ToolAuthor
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NAME = "text.count"


class Made:
    """A source with its stores."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.sandbox = MadeToolSandbox()
        self.source = MadeTools(store=stores.made_tools, blobs=stores.blobs, sandbox=self.sandbox)

    async def keep(self, code: str, *, stored: str | None = None, root: str = "d") -> str:
        """Keep a tool as the pipeline would; `stored` puts other code into its place."""
        made = draft(code)
        tool = GeneratedTool(
            hash=made.hash,
            name=NAME,
            description="Count.",
            parameters=TEXT_SCHEMA,
            code=await self.stores.blobs.put((stored or made.code).encode()),
            handler="handler",
            pipeline=PIPELINE,
            made_at=NOW,
        )
        maker = ToolAuthor(run=root, root=root, worker="w", at=NOW)
        await self.stores.made_tools.keep(tool, maker)
        return made.hash

    async def call(
        self, hash: str, arguments: object = None, *, allowed: bool = True, seconds: float = 5
    ) -> tuple[str, str, str]:
        envelope = ToolInvocation(
            run="d",
            call_id="c",
            idempotency_key="k",
            name=NAME,
            arguments={"text": "a b"} if arguments is None else arguments,  # pyright: ignore[reportArgumentType]
            timeout_s=seconds,
        )
        grant = ToolGrant(root="/", allowed=(NAME,) if allowed else (), generated={NAME: hash})
        output = await self.source.call(envelope, grant)
        return output.outcome, output.code, output.text


@pytest.fixture
async def made(tmp_path: Path) -> AsyncGenerator[Made]:
    stores = await open_stores(tmp_path / "home")
    found = Made(stores)
    yield found
    await found.sandbox.aclose()
    await stores.close()


async def test_it_serves_what_the_grant_pins(made: Made) -> None:
    pinned = ToolGrant(root="/", generated={NAME: "a" * 64})
    assert made.source.serves(NAME, pinned)
    assert not made.source.serves(NAME, ToolGrant(root="/", allowed=(NAME,)))
    assert not made.source.serves("text.other", pinned)


async def test_a_call_gives_the_result_as_json(made: Made) -> None:
    hash = await made.keep(returning("len(text.split())"))
    assert await made.call(hash) == ("ok", "", '{\n  "n": 2\n}')


async def test_a_tool_that_is_not_on_offer_is_denied(made: Made) -> None:
    hash = await made.keep(returning("text"))
    assert (await made.call(hash, allowed=False))[:2] == ("denied", "denied")


async def test_arguments_are_checked_before_anything_runs(made: Made) -> None:
    hash = await made.keep(returning("text"))
    for arguments in ({}, {"text": 3}, {"text": "a", "more": 1}):
        assert (await made.call(hash, arguments))[:2] == ("error", "invalid_arguments")


FAILING = {
    "a refusal": (returning("1", body="raise ValueError('no ' + text)"), "refused"),
    "a crash": (returning("1 / 0"), "crashed"),
    "no object": ("def handler(*, text: str) -> dict:\n    print(text)\n", "no_result"),
    "no end": (returning("1", body="while text: pass"), "no_result"),
}


@pytest.mark.parametrize(("code", "said"), FAILING.values(), ids=FAILING)
async def test_what_fails_is_an_output(made: Made, code: str, said: str) -> None:
    outcome, found, text = await made.call(await made.keep(code), seconds=2)
    assert (outcome, found) == ("error", said)
    assert NAME in text


async def test_other_code_than_was_validated_is_not_run(made: Made) -> None:
    hash = await made.keep(returning("text"), stored=returning("'forged'"))
    assert (await made.call(hash))[:2] == ("error", "hash_mismatch")


async def test_an_unknown_hash_is_not_found(made: Made) -> None:
    assert (await made.call("f" * 64))[:2] == ("error", "not_found")


async def test_code_that_left_the_store_is_an_output(made: Made) -> None:
    hash = await made.keep(returning("text"))
    kept = await made.stores.made_tools.get(hash)
    assert kept is not None
    later = datetime.now(UTC) + timedelta(days=1)
    await made.stores.blobs.delete([kept.code], written_before=later)
    assert (await made.call(hash))[:2] == ("error", "not_found")


async def test_a_run_gets_what_its_tree_made_or_a_person_approved(made: Made) -> None:
    hash = await made.keep(returning("text"), root="d")
    facts = await made.source.facts({NAME: hash}, root="d")
    assert [fact.name for fact in facts] == [NAME]
    with pytest.raises(InvalidInput, match="nobody approved it"):
        await made.source.facts({NAME: hash}, root="e")
    with pytest.raises(InvalidInput, match=r"no tool text\.other"):
        await made.source.facts({"text.other": hash}, root="d")
