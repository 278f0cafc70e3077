"""The pipeline over real stores and the real sandbox: what passes, what each stage refuses."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest
import yaml
from drafts import COUNT, draft, returning
from pydantic import JsonValue
from temporalio.testing import ActivityEnvironment

from perdure.activities.generated_tools import MakeTool
from perdure.adapters.sandbox.generated_tools import MadeToolSandbox
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.tools.generated_tools import MadeTools
from perdure.adapters.tools.host import LocalToolHost, ToolHosts
from perdure.domain.generated_tools.draft import ToolDraft, Unreadable, read_draft
from perdure.domain.generated_tools.dry_run import Trial
from perdure.domain.generated_tools.messages import (
    MakeToolReport,
    MakeToolRequest,
    ToolsFactorySettings,
)
from perdure.domain.generated_tools.record import rejected
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation, ToolOutput
from perdure.extending.tool_decorator import tool

BENIGN: list[dict[str, JsonValue]] = yaml.safe_load(
    (Path(__file__).parent / "benign_tools" / "tools.yaml").read_text(encoding="utf-8")
)


class CountingSandbox(MadeToolSandbox):
    """The real sandbox, which counts what it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    async def run(
        self, code: str, handler: str, arguments: Mapping[str, JsonValue], *, seconds: float
    ) -> Trial:
        self.runs += 1
        return await super().run(code, handler, arguments, seconds=seconds)


@tool(name="lab.mix")
def mix(parts: int) -> str:
    """A tool of this worker."""
    return str(parts)


class Factory:
    """The activity on stores of its own."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.sandbox = CountingSandbox()
        self.made = MadeTools(store=stores.made_tools, blobs=stores.blobs, sandbox=self.sandbox)
        self.host = ToolHosts(LocalToolHost((mix,)), (self.made,))

    async def make(self, made: ToolDraft, **changes: object) -> MakeToolReport:
        activity = MakeTool(
            store=self.stores.made_tools,
            blobs=self.stores.blobs,
            sandbox=self.sandbox,
            host=self.host,
        )
        address = await self.stores.blobs.put(made.model_dump_json().encode())
        step = MakeToolRequest(run="d", root="d", worker="w1", draft=address)
        return await ActivityEnvironment().run(activity.make_tool, step.model_copy(update=changes))

    async def call(self, name: str, hash: str, **arguments: JsonValue) -> ToolOutput:
        grant = ToolGrant(root="/", allowed=(name,), generated={name: hash})
        envelope = ToolInvocation(
            run="d", call_id="c", idempotency_key="k", name=name, arguments=arguments
        )
        return await self.host.call(envelope, grant)


@pytest.fixture
async def factory(tmp_path: Path) -> AsyncGenerator[Factory]:
    stores = await open_stores(tmp_path / "home")
    made = Factory(stores)
    yield made
    await made.sandbox.aclose()
    await stores.close()


def benign(entry: dict[str, JsonValue]) -> ToolDraft:
    takes = entry["takes"]
    assert isinstance(takes, dict)
    properties: dict[str, JsonValue] = {}
    for name, kind in takes.items():
        match kind:
            case [of, default]:
                properties[name] = {"type": of, "default": default}
            case _:
                properties[name] = {"type": kind}
    needed: list[JsonValue] = [name for name, kind in takes.items() if isinstance(kind, str)]
    schema: JsonValue = {"type": "object", "properties": properties, "required": needed}
    read = read_draft({**entry, "schema": schema})
    assert not isinstance(read, Unreadable), read
    return read


def test_there_are_enough_benign_tools() -> None:
    assert len({str(entry["name"]) for entry in BENIGN}) >= 30


@pytest.mark.parametrize("entry", BENIGN, ids=lambda entry: entry["name"])
async def test_a_benign_tool_passes_and_works(
    factory: Factory, entry: dict[str, JsonValue]
) -> None:
    made = benign(entry)
    report = await factory.make(made)
    assert report.refused is None
    assert report.hash == made.hash
    example = made.examples[0]
    said = await factory.call(made.name, report.hash, **example.arguments)
    assert said.outcome == "ok"
    assert made.examples
    assert example.result is not None
    assert yaml.safe_load(said.text).keys() == example.result.keys()


REFUSED: dict[str, tuple[ToolDraft, dict[str, object], tuple[str, int]]] = {
    "switched off": (
        draft(),
        {"settings": ToolsFactorySettings(enabled=False)},
        ("enabled", 403),
    ),
    "no dot": (draft(name="count"), {}, ("name", 400)),
    "a reserved namespace": (draft(name="fs.count"), {}, ("name", 403)),
    "the namespace of a plugin": (draft(name="lab.count"), {}, ("name", 403)),
    "a namespace that the run does not have": (
        draft(),
        {"settings": ToolsFactorySettings(namespaces=("math",))},
        ("name", 403),
    ),
    "a namespace that the worker does not have": (
        draft(),
        {"settings": ToolsFactorySettings(worker_namespaces={"w1": ("math",)})},
        ("name", 403),
    ),
    "a namespace that the worker does not have under the name of a retry": (
        draft(),
        {"settings": ToolsFactorySettings(worker_namespaces={"w1_v2": ("math",)})},
        ("name", 403),
    ),
    "a name of other code": (draft(), {"taken": {"text.count": "b" * 64}}, ("name", 409)),
    "too many of the worker": (draft(), {"makers": ("w1",) * 10}, ("limits", 429)),
    "too many of the run": (draft(), {"makers": ("w2",) * 50}, ("limits", 429)),
    "no handler": (draft("X = 1\n"), {}, ("static", 400)),
    "an import": (draft("import os\n" + COUNT), {}, ("static", 403)),
    "a danger": (draft(returning("eval(text)")), {}, ("static", 403)),
    "another schema": (draft(schema={"type": "object"}), {}, ("schema", 400)),
    "a stand-in": (draft(returning("1")), {}, ("placeholder", 403)),
    "another result": (
        draft(examples=[{"arguments": {"text": "a b"}, "result": {"words": 3}}]),
        {},
        ("smoke", 422),
    ),
    "an example that crashes": (
        draft(returning("1 / len(text)"), examples=[{"arguments": {"text": ""}}]),
        {},
        ("smoke", 422),
    ),
    "an example that it refuses": (
        draft(
            returning("text", body="if not text:\n    raise ValueError('no')"),
            examples=[{"arguments": {"text": ""}}],
        ),
        {},
        ("smoke", 422),
    ),
    "a crash on nothing": (draft(returning("text[0]")), {}, ("dry_run", 422)),
    "no object": (
        draft("def handler(*, text: str) -> str:\n    return text\n"),
        {},
        ("dry_run", 422),
    ),
    "silence": (
        draft("def handler(*, text: str) -> dict:\n    if text:\n        return {'n': text}\n"),
        {},
        ("dry_run", 422),
    ),
    "not written yet": (
        draft(returning("text", body="if not text:\n    raise NotImplementedError('later')")),
        {},
        ("dry_run", 422),
    ),
    "what the interpreter lacks": (
        draft(returning("text.encode('rot13')")),
        {},
        ("dry_run", 422),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "changes", "expected"), REFUSED.values(), ids=REFUSED)
async def test_a_stage_refuses(
    factory: Factory, made: ToolDraft, changes: dict[str, object], expected: tuple[str, int]
) -> None:
    report = await factory.make(made, **changes)
    assert report.refused is not None
    assert (report.refused.stage, report.refused.code) == expected
    assert report.hash == ""
    assert await factory.stores.made_tools.get(made.hash) is None
    # What a repair may help gets a question for the model that repairs, the rest gets none.
    assert (report.question is not None) == report.refused.repairable


async def test_a_tool_that_refuses_plain_input_passes(factory: Factory) -> None:
    picky = draft(returning("text[0]", body="if not text:\n    raise ValueError('no text')"))
    assert (await factory.make(picky)).refused is None


async def test_the_same_code_is_validated_once(factory: Factory) -> None:
    made = draft(examples=[{"arguments": {"text": "a"}, "result": {"words": 1}}])
    first = await factory.make(made)
    runs = factory.sandbox.runs
    again = await factory.make(made, run="e", root="e", worker="w2")
    assert (first.cached, again.cached) == (False, True)
    assert again.hash == first.hash
    assert factory.sandbox.runs == runs == 2
    makers = await factory.stores.made_tools.makers(first.hash)
    assert {maker.root for maker in makers} == {"d", "e"}


async def test_what_an_older_pipeline_validated_is_validated_again(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await factory.make(draft())
    for module in ("perdure.activities.generated_tools", "perdure.domain.generated_tools.record"):
        monkeypatch.setattr(f"{module}.PIPELINE", 2)
    report = await factory.make(draft())
    assert not report.cached
    kept = await factory.stores.made_tools.get(report.hash)
    assert kept is not None
    assert kept.pipeline == 2


async def test_names_and_limits_count_on_a_hit_in_the_cache(factory: Factory) -> None:
    await factory.make(draft())
    settings = ToolsFactorySettings(namespaces=("math",))
    by_name = await factory.make(draft(), settings=settings)
    by_limit = await factory.make(draft(), makers=("w1",) * 10)
    found = [report.refused and report.refused.stage for report in (by_name, by_limit)]
    assert found == ["name", "limits"]


async def test_what_a_person_rejected_is_not_made_again(factory: Factory) -> None:
    report = await factory.make(draft())
    kept = await factory.stores.made_tools.get(report.hash)
    assert kept is not None
    await factory.stores.made_tools.decide(rejected(kept, by="ada", now=kept.made_at))
    again = await factory.make(draft())
    assert again.refused is not None
    assert (again.refused.stage, again.refused.category) == ("freeze", "approval")
    said = await factory.call("text.count", report.hash, text="a")
    assert (said.outcome, said.code) == ("error", "rejected")


async def test_what_people_denied_to_a_run_is_not_asked_about_again(factory: Factory) -> None:
    report = await factory.make(draft())
    # Other examples are another draft of the same tool.
    same = draft(examples=[{"arguments": {"text": "a"}}])
    again = await factory.make(same, denied=(report.hash,))
    assert again.refused is not None
    assert (again.refused.stage, again.refused.category) == ("freeze", "approval")
    assert not again.refused.repairable
    assert (await factory.make(draft(code=f"{COUNT}X = 1\n"), denied=(report.hash,))).hash
    kept = await factory.stores.made_tools.get(report.hash)
    assert kept is not None
    await factory.stores.made_tools.decide(kept.model_copy(update={"state": "approved"}))
    assert (await factory.make(same, denied=(report.hash,))).approved


async def test_a_person_is_shown_the_code(factory: Factory) -> None:
    settings = ToolsFactorySettings(approve=True)
    assert (await factory.make(draft(), settings=settings)).shown == COUNT
    assert (await factory.make(draft())).shown == ""


async def test_another_process_finds_the_tool_by_its_hash(factory: Factory, tmp_path: Path) -> None:
    report = await factory.make(draft())
    stores = await open_stores(tmp_path / "home")
    other = Factory(stores)
    try:
        again = await other.make(draft())
        assert (again.cached, other.sandbox.runs) == (True, 0)
        said = await other.call("text.count", report.hash, text="a b c")
        assert said.text == '{\n  "words": 3\n}'
    finally:
        await other.sandbox.aclose()
        await stores.close()
