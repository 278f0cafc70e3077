"""Loop definitions as files: what is found where, and changes that cannot get lost."""

import asyncio
import json
from pathlib import Path

import pytest

from perdure.adapters.definitions.folder import MAX_BYTES
from perdure.adapters.definitions.store import LoopFiles
from perdure.domain.foundation.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    PreconditionRequired,
    StoreError,
    VersionConflict,
)
from perdure.domain.roles.definition_library import StoredDefinition
from perdure.domain.roles.parse_definition import Fields

BUILT_IN = {"diverge-converge", "docs-review", "goal-driven", "harness", "reflection", "research"}


def fields(name: str = "mine", **more: object) -> Fields:
    given: Fields = {
        "name": name,
        "roles": [{"role": "coder", "prompt": "Do it: “now”."}],
        "termination_condition": {"type": "iteration_bound", "value": 2},
    }
    return {**given, **more}  # type: ignore[dict-item]


@pytest.fixture
def store(tmp_path: Path) -> LoopFiles:
    return LoopFiles(tmp_path / "home")


async def made(store: LoopFiles, name: str = "mine", **where: str) -> StoredDefinition:
    return await store.create(fields(name), only_new=True, **where)


async def test_the_built_in_loops_are_there_without_any_folder(store: LoopFiles) -> None:
    library = await store.library()
    assert set(library.definitions) == BUILT_IN
    assert {one.origin for one in library.definitions.values()} == {"built-in"}
    assert {"plan", "coder", "reviewer", "explorer"} <= set(library.roles)
    assert library.broken == ()


async def test_a_definition_lives_through_create_update_delete(store: LoopFiles) -> None:
    first = await made(store)
    assert (await store.get("mine")).version == first.version
    changed = fields(description="better")
    second = await store.update("mine", changed, version=first.etag)
    assert second.version != first.version
    assert (await store.get("mine")).fields == changed
    await store.delete("mine", version=second.version)
    with pytest.raises(NotFound):
        await store.get("mine")


async def test_a_version_is_the_content_whatever_its_form(store: LoopFiles, tmp_path: Path) -> None:
    first = await made(store)
    other = tmp_path / "other" / "loops" / "mine.json"
    other.parent.mkdir(parents=True)
    other.write_text(json.dumps(dict(reversed(fields().items()))), encoding="utf-8")
    near = await store.get("mine", workspace=str(tmp_path / "other"))
    assert (near.origin, near.version) == ("workspace", first.version)


async def test_the_workspace_hides_the_home_and_what_is_built_in(
    store: LoopFiles, tmp_path: Path
) -> None:
    workspace = str(tmp_path)
    folder = tmp_path / "loops"
    folder.mkdir()
    (folder / "own.yml").write_text(json.dumps(fields("harness")), encoding="utf-8")
    await made(store, "both")
    (folder / "both.yaml").write_text(json.dumps(fields("both", description="near")))
    found = (await store.library(workspace)).definitions
    assert (found["harness"].origin, found["both"].origin) == ("workspace", "workspace")
    assert (await store.library()).definitions["harness"].origin == "built-in"


REFUSED = {
    "taken": (Conflict, "conflict"),
    "taken by a built-in one": (Conflict, "conflict"),
    "not asked for as new": (PreconditionRequired, "precondition_required"),
    "update without a version": (PreconditionRequired, "precondition_required"),
    "update of an old version": (VersionConflict, "version_conflict"),
    "update of nothing": (NotFound, "not_found"),
    "update of a built-in one": (NotAllowed, "not_allowed"),
    "update with another name": (InvalidInput, "invalid_input"),
    "delete without a version": (PreconditionRequired, "precondition_required"),
    "delete of an old version": (VersionConflict, "version_conflict"),
    "delete of nothing": (NotFound, "not_found"),
    "delete of a built-in one": (NotAllowed, "not_allowed"),
    "what the server sets": (InvalidInput, "invalid_input"),
}


async def attempt(store: LoopFiles, case: str) -> None:
    stale = "sha256:" + "0" * 64
    match case:
        case "taken":
            await made(store)
        case "taken by a built-in one":
            await made(store, "harness")
        case "not asked for as new":
            await store.create(fields("new"), only_new=False)
        case "what the server sets":
            await store.create(fields("new", version="1", etag="x"), only_new=True)
        case "update with another name":
            version = (await store.get("mine")).version
            await store.update("mine", fields("other"), version=version)
        case _:
            name = {"nothing": "absent", "one": "harness"}.get(case.split()[-1], "mine")
            version = None if "without" in case else stale
            if case.startswith("update"):
                await store.update(name, fields(name), version=version)
            else:
                await store.delete(name, version=version)


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
async def test_what_is_not_allowed_changes_nothing(store: LoopFiles, case: str) -> None:
    kind, code = REFUSED[case]
    first = await made(store)
    with pytest.raises(kind) as caught:
        await attempt(store, case)
    assert (type(caught.value), caught.value.code) == (kind, code)
    assert (await store.get("mine")) == first


async def test_what_the_server_sets_is_named_once_each(store: LoopFiles) -> None:
    with pytest.raises(InvalidInput) as caught:
        await store.create(fields(version="1", snapshot={}), only_new=True)
    assert [path for path, _ in caught.value.problems] == ["version", "snapshot"]


@pytest.mark.parametrize(
    "name", ["../escape", "/etc/passwd", "a/b", "..", "Upper", "", "a.b", "x" * 65, "-a", "ü"]
)
async def test_unsafe_names_are_refused(store: LoopFiles, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        await made(store, name)
    assert not (tmp_path / "home").exists()


async def test_of_many_changes_at_once_one_wins(store: LoopFiles) -> None:
    first = await made(store)
    changes = [
        store.update("mine", fields(description=f"by {number}"), version=first.version)
        for number in range(8)
    ]
    ended = await asyncio.gather(*changes, return_exceptions=True)
    assert sum(isinstance(one, StoredDefinition) for one in ended) == 1
    assert sum(isinstance(one, VersionConflict) for one in ended) == 7
    created = await asyncio.gather(*(made(store, "new") for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(one, StoredDefinition) for one in created) == 1
    assert sum(isinstance(one, Conflict) for one in created) == 7


BROKEN = {
    "no yaml": ("a.yaml", b"a: [", "cannot be read"),
    "no text": ("a.yaml", b"\xff\xfe\x00", "UTF-8"),
    "a list": ("a.json", b"[]", "a block of fields"),
    "empty": ("a.yaml", b"", "a block of fields"),
    "typo": ("a.yaml", json.dumps(fields(rols=[])).encode(), "Did you mean roles?"),
    "too large": ("a.yaml", b"#" * 200_000, "larger"),
    "alias bomb": (
        "a.yaml",
        b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\n"
        b"d: &d [*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e]\n",
        "values",
    ),
}


@pytest.mark.parametrize(("name", "data", "said"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_file_is_told_and_hides_nothing(
    store: LoopFiles, tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    folder = tmp_path / "loops"
    folder.mkdir()
    (folder / name).write_bytes(data)
    (folder / "good.yaml").write_text(json.dumps(fields("good")), encoding="utf-8")
    library = await store.library(str(tmp_path))
    assert "good" in library.definitions
    (broken,) = library.broken
    assert broken.path.endswith(name)
    assert said in " ".join(str(problem) for problem in broken.problems)


async def test_two_files_with_one_name_are_told(store: LoopFiles, tmp_path: Path) -> None:
    folder = tmp_path / "loops"
    folder.mkdir()
    for name in ("a.yaml", "b.json"):
        (folder / name).write_text(json.dumps(fields("twice", description=name)))
    library = await store.library(str(tmp_path))
    assert library.definitions["twice"].fields["description"] == "a.yaml"
    assert [Path(one.path).name for one in library.broken] == ["b.json"]


async def test_links_are_not_followed(store: LoopFiles, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere.yaml"
    secret.write_text(json.dumps(fields("secret")), encoding="utf-8")
    folder = tmp_path / "space" / "loops"
    folder.mkdir(parents=True)
    (folder / "link.yaml").symlink_to(secret)
    library = await store.library(str(tmp_path / "space"))
    assert "secret" not in library.definitions
    assert len(library.broken) == 1


async def test_a_folder_that_is_a_link_or_a_file_is_not_written(
    store: LoopFiles, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    space = tmp_path / "space"
    space.mkdir()
    (space / "loops").symlink_to(target)
    with pytest.raises(StoreError):
        await made(store, workspace=str(space))
    assert list(target.iterdir()) == []


async def test_a_file_keeps_its_format(store: LoopFiles, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "loops"
    folder.mkdir(parents=True)
    path = folder / "any-name.json"
    path.write_text(json.dumps(fields()), encoding="utf-8")
    found = await store.get("mine")
    await store.update("mine", fields(description="new"), version=found.version)
    assert json.loads(path.read_text(encoding="utf-8"))["description"] == "new"
    assert [one.name for one in folder.iterdir()] == ["any-name.json"]


@pytest.mark.parametrize("text", ["2026-01-01", "on", "1e3", "\x85\u2028", "#", "a: b", "😀\n\n x"])
async def test_texts_come_back_as_they_were(store: LoopFiles, text: str) -> None:
    given = fields(description=text)
    first = await store.create(given, only_new=True)
    again = await store.get("mine")
    assert (again.fields, again.version) == (given, first.version)


async def test_what_no_file_can_hold_is_refused(store: LoopFiles) -> None:
    with pytest.raises(InvalidInput):
        await store.create(fields(description="\ud800"), only_new=True)
    with pytest.raises(InvalidInput):
        await store.create(fields(description="x" * 200_000), only_new=True)
    assert "mine" not in (await store.library()).definitions


@pytest.mark.parametrize("file", ["mine.yaml", "mine.json"])
@pytest.mark.parametrize("text", ["a", "é"])
async def test_what_is_accepted_can_be_read_changed_and_removed(
    store: LoopFiles, tmp_path: Path, file: str, text: str
) -> None:
    folder = tmp_path / "home" / "loops"
    folder.mkdir(parents=True)
    (folder / file).write_text(json.dumps(fields()), encoding="utf-8")
    found = await store.get("mine")
    # Short lines, which YAML and JSON with indents make larger than the most that is read.
    given = fields(description="")
    given["roles"] = [{"role": "coder", "prompt": "\n".join([text] * 20_000)}]
    rest = MAX_BYTES - len(json.dumps(given, ensure_ascii=False).encode())
    given["description"] = "x" * rest
    changed = await store.update("mine", given, version=found.version)
    assert (await store.get("mine")).fields == given
    await store.delete("mine", version=changed.version)
    assert list(folder.iterdir()) == []
