"""Files that a task names become texts and blobs, from its folder alone."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput
from perdure.submission.loading import load_data, store
from perdure.submission.types import Surroundings
from tests.submission.task_files import Load, write


class OtherAddresses:
    """A store that names blobs in its own way, as an encrypting one does."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        address = f"hmac:{len(self.kept)}"
        self.kept[address] = data
        return address


def test_files_become_texts_and_blobs(home: Path, submit: Load) -> None:
    folder = home / "work"
    (folder / "sub").mkdir()
    write(folder / "sub" / "script.yaml", "replies: []")
    write(folder / "short.md", "short text")
    write(folder / "long.md", "long " * 2_000)
    write(
        folder / "task.yaml",
        "kind: agent\ngoal: g\n"
        "models: {executor: ['scripted:sub/script.yaml', 'claude-x']}\n"
        "context: {a: {file: short.md}, b: 'file: long.md', c: {file: x, other: y}, d: plain}",
    )
    found = submit("task.yaml")
    spec, blobs = found.spec, found.blobs
    first = spec.models.chain("executor")[0]
    reference = spec.context["b"]

    assert spec.context["a"] == "short text"
    assert spec.context["c"] == {"file": "x", "other": "y"}
    assert isinstance(reference, dict)
    assert blobs[str(reference["ref"])] == b"long " * 2_000
    assert blobs[first.removeprefix("scripted:").removesuffix("#script")] == b"replies: []"
    assert first.startswith("scripted:sha256:")


def test_a_script_keeps_its_label(home: Path, submit: Load) -> None:
    write(home / "work" / "script.yaml", "replies: []")
    model = submit("do it", model="scripted:script.yaml#second").spec.models.chain("executor")[0]
    assert model.startswith("scripted:sha256:")
    assert model.endswith("#second")


def test_a_script_that_a_flag_puts_into_a_list_is_read(home: Path, submit: Load) -> None:
    write(home / "work" / "task.yaml", "kind: agent\ngoal: g\nmodels: {executor: [a, b]}")
    write(home / "work" / "script.yaml", "replies: []")
    found = submit("task.yaml", sets=("models.executor[1]=scripted:script.yaml",))
    (address,) = found.blobs
    assert found.spec.models.chain("executor") == ("a", f"scripted:{address}#script")
    with pytest.raises(InvalidInput, match=r"models\.executor\[1\]: found \"no.yaml\""):
        submit("task.yaml", sets=("models.executor[1]=scripted:no.yaml",))


async def test_a_store_may_name_blobs_otherwise(home: Path, submit: Load) -> None:
    write(home / "work" / "script.yaml", "replies: []")
    write(home / "work" / "long.md", "x" * 10_000)
    found = submit("do it", model="scripted:script.yaml#a", sets=("context.notes={file: long.md}",))
    blobs = OtherAddresses()
    spec = await store(found, blobs)  # pyright: ignore[reportArgumentType]  (the part used)
    kept = {data: address for address, data in blobs.kept.items()}

    assert spec.models.executor == f"scripted:{kept[b'replies: []']}#a"
    assert spec.context["notes"] == {"ref": kept[b"x" * 10_000]}


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/passwd", "link", "linked/inner", "sub/../../secret", "nothing", "sub"],
)
def test_no_reference_leads_out_of_the_folder(home: Path, submit: Load, name: str) -> None:
    folder = home / "work"
    write(home / "secret", "secret")
    (home / "elsewhere").mkdir()
    write(home / "elsewhere" / "inner", "secret")
    (folder / "sub").mkdir()
    (folder / "link").symlink_to(home / "secret")
    (folder / "linked").symlink_to(home / "elsewhere")
    with pytest.raises(InvalidInput, match=r"models\.executor: found"):
        submit("do it", model=f"scripted:{name}")
    with pytest.raises(InvalidInput, match=r"context\.a: found"):
        submit("do it", sets=(f"context.a={{file: '{name}'}}",))


def test_over_rest_references_are_refused() -> None:
    rest = Surroundings(folder=None, default_model="claude-x")
    with pytest.raises(InvalidInput) as caught:
        load_data(
            {
                "kind": "agent",
                "goal": "g",
                "workspace": "here",
                "context": {"a": {"file": "x"}},
                "models": {"executor": "scripted:x.yaml"},
            },
            surroundings=rest,
        )
    told = caught.value.message
    assert "context.a: " in told
    assert "models.executor: " in told
    assert told.count("this interface reads none") == 2
    assert "workspace" in told


def test_over_rest_stored_scripts_are_taken() -> None:
    rest = Surroundings(folder=None)
    model = "scripted:sha256:" + "0" * 64
    body: JsonValue = {"kind": "agent", "goal": "g", "models": {"executor": model}}
    assert load_data(body, surroundings=rest).spec.models.executor == model
