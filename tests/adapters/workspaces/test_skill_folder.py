"""The skills of a working folder: what is read as one, under which name, and what is told."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from perdure.adapters.workspaces.skill_folder import WorkingSkills
from perdure.domain.delegation.skills import MOST_CHARACTERS, MOST_SKILLS

BODY = "# How we ship\n\nTag it, then push the tag."


def written(folder: Path, files: Mapping[str, bytes | str]) -> str:
    """The root of a working folder with these files in `skills`."""
    skills = folder / "skills"
    skills.mkdir()
    for name, content in files.items():
        (skills / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(folder)


HOSTILE = (
    "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40))]
    ),
    "a: " + "[" * 3_000 + "]" * 3_000,
    "a: " + "9" * 5_000,
    "a: 2026-13-45",
)


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("ship.md", BODY, "ship: Tag it, then push the tag."),
        ("Ship It!.MD", BODY, "ship-it: Tag it, then push the tag."),
        ("ship.md", f"\ufeff{BODY}".replace("\n", "\r\n"), "ship: Tag it, then push the tag."),
        ("ship.md", f"---\ndescription: To ship.\n---\n{BODY}", "ship: To ship."),
        ("ship.md", f"---\npurpose: To\n  ship.\nname: other\n---\n{BODY}", "ship: To ship."),
        ("ship.md", f"---\npurpose: [1, 2]\n---\n{BODY}", "ship: Tag it, then push the tag."),
        ("ship.md", f"---\n: {{ no yaml\n---\n{BODY}", "ship: Tag it, then push the tag."),
        *(
            ("ship.md", f"---\n{front}\n---\n{BODY}", "ship: Tag it, then push the tag.")
            for front in HOSTILE
        ),
        ("ship.md", "## Purpose\n\nTo ship.\n\n## Steps\n1. Tag", "ship: To ship."),
        ("größe.md", "Measure it.", "größe: Measure it.".replace("ß", "ss")),
    ],
    ids=[
        "a heading", "its file name as people type it", "written on Windows", "a description",
        "a purpose of two lines", "a purpose that is no text", "facts that are no YAML",
        "merges without end", "facts too deep", "a number without end", "a day that is none",
        "a section", "letters of other languages",
    ],
)  # fmt: skip
async def test_a_file_is_a_skill_of_its_name(
    tmp_path: Path, name: str, content: str, line: str
) -> None:
    found = await WorkingSkills().read(written(tmp_path, {name: content}))
    assert [skill.line for skill in found.texts] == [line]
    assert found.problems == ()
    assert not found.texts[0].markdown.startswith("---")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("ship.md", b"\xff\xfe\x00", "not UTF-8 text"),
        ("ship.md", "  \n", "it is empty"),
        ("ship.md", "---\npurpose: To ship.\n---\n", "it is empty"),
        ("---.md", BODY, "no letters or digits"),
        ("ship.md", "x" * (MOST_CHARACTERS + 1), "at most 64,000 fit"),
        ("ship.md", "x" * (4 * MOST_CHARACTERS + 1), "larger than"),
    ],
    ids=["no text", "blank", "facts alone", "no name", "a book", "a library"],
)
async def test_what_is_no_skill_is_told_and_the_others_are_read(
    tmp_path: Path, name: str, content: bytes | str, told: str
) -> None:
    found = await WorkingSkills().read(written(tmp_path, {name: content, "zz.md": BODY}))
    assert [skill.name for skill in found.texts] == ["zz"]
    (problem,) = found.problems
    assert problem.startswith(f"skills/{name} was not read as a skill") and told in problem


async def test_a_link_is_not_followed_out_of_the_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("The password is swordfish.")
    root = tmp_path / "work"
    root.mkdir()
    written(root, {"ship.md": BODY})
    (root / "skills" / "stolen.md").symlink_to(secret)
    found = await WorkingSkills().read(str(root))
    assert [skill.name for skill in found.texts] == ["ship"]
    assert "symbolic link" in found.problems[0]


async def test_a_link_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "work"
    outside.mkdir()
    root.mkdir()
    (outside / "ship.md").write_text(BODY)
    (root / "skills").symlink_to(outside)
    found = await WorkingSkills().read(str(root))
    assert found.texts == ()
    assert found.problems[0].startswith("The folder skills was not read")


@pytest.mark.parametrize("there", ["nothing", "a file", "other files"])
async def test_without_skills_there_is_nothing_to_tell(tmp_path: Path, there: str) -> None:
    if there == "a file":
        (tmp_path / "skills").write_text("no folder")
    elif there == "other files":
        written(tmp_path, {"notes.txt": "no skill"})
        (tmp_path / "skills" / "deep.md").mkdir()
    found = await WorkingSkills().read(str(tmp_path))
    assert (found.texts, found.problems) == ((), ())


async def test_of_very_many_the_first_are_read_and_the_rest_told(tmp_path: Path) -> None:
    root = written(tmp_path, {f"s{n:03}.md": BODY for n in range(MOST_SKILLS + 5)})
    found = await WorkingSkills().read(root)
    assert len(found.texts) == MOST_SKILLS
    assert f"skills holds {MOST_SKILLS + 5} files" in found.problems[0]


async def test_what_a_run_writes_is_read_as_written(tmp_path: Path) -> None:
    await WorkingSkills().write(str(tmp_path), name="ship", text=f"{BODY}\n\n")
    (skill,) = (await WorkingSkills().read(str(tmp_path))).texts
    assert (skill.name, skill.markdown) == ("ship", BODY)


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("Ship It.md", "ship-it.md", "ship-it"),
        ("nai\u0308ve.md", "na\u00efve.md", "na\u00efve"),
    ],
    ids=["cases", "spellings of one letter"],
)
async def test_of_two_files_of_one_name_the_first_is_the_skill(
    tmp_path: Path, first: str, second: str, name: str
) -> None:
    root = written(tmp_path, {first: "Tag it first.", second: "Push it first."})
    found = await WorkingSkills().read(root)
    assert [(skill.name, skill.markdown) for skill in found.texts] == [(name, "Tag it first.")]
    told = f"skills/{second} was not read as a skill: another file is the skill {name} already."
    assert found.problems == (told,)
