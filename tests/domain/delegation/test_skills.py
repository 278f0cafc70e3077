"""Skills of a run: what is kept, what it is called, and what a reference to it finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.skills import (
    KnownSkill,
    SavedSkill,
    SkillCatalog,
    SkillFile,
    by_name,
    given_whole,
    is_skill,
    is_skill_file,
    named_skills,
    resolve,
)
from perdure.domain.memory.skills import catalog_line, purpose_of, skill_name

WORDS = " ".join(["word"] * 30)


def shelf(**names: str) -> SkillCatalog:
    skills = {name.replace("_", "-"): KnownSkill(ref=ref, line=name) for name, ref in names.items()}
    return SkillCatalog(skills=skills)


@pytest.mark.parametrize(
    ("markdown", "name"),
    [
        ("# Skill: Counting Words\ntext", "counting-words"),
        ("# SKILL:counting_words\ntext", "counting-words"),
        ("intro\n\n# Counting words ##\ntext", "counting-words"),
        ("## Purpose\nTo count.\n\n## Skill: Counting words\ntext", "counting-words"),
        ("Skill: Counting words\n\ntext", "counting-words"),
        ("**Skill:** Counting words\n\ntext", "counting-words"),
        ("# Words\n\nSkill: Counting words\ntext", "counting-words"),
        ("Counting words\n==============\n\ntext", "counting-words"),
        ("---\nname: Counting words\n---\n# Another\ntext", "counting-words"),
        ('---\nkind: x\ntitle: "Counting words"\n---\ntext', "counting-words"),
        ("```sh\n# a comment\n```\n# Counting words\ntext", "counting-words"),
        ("# Über Größe\ntext", "über-grösse".replace("ß", "ss")),
        (f"# {'long ' * 30}", ("long-" * 12).rstrip("-")),
        ("# Skill: ../../etc/passwd", "etc-passwd"),
    ],
)
def test_the_first_heading_names_a_skill(markdown: str, name: str) -> None:
    assert skill_name(markdown) == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"# Counting words {' ' * 300_000}.", "counting-words"),
        (f"# Counting words {'#' * 300_000}.", "counting-words"),
        (f"Skill: Counting words{' ' * 300_000}.", "counting-words"),
        (f"---\nname: Counting words{' ' * 300_000}.\n---\n", "counting-words"),
    ],
    ids=["blanks", "marks", "named", "in front"],
)
def test_a_line_without_end_costs_no_worker_its_time(line: str, name: str) -> None:
    assert skill_name(line) == name


@pytest.mark.parametrize("mark", ["`", "~"])
def test_a_fence_without_end_costs_no_worker_its_time(mark: str) -> None:
    assert skill_name(f"# Counting words\n{mark * 300_000}") == "counting-words"


def test_untitled_skills_are_called_by_their_content() -> None:
    one, two = skill_name("do this"), skill_name("do that")
    assert one != two
    assert one.startswith("skill-") and one == skill_name("do  this\n")
    assert skill_name("# !!!\ndo this").startswith("skill-")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("## Purpose\nTo count.", "## Purpose\nTo add."),
        ("# Steps\n1. Count.", "# Steps\n1. Add."),
        ("Count the words.", "Add the numbers."),
        ("## Overview\n\n## Procedure\nCount.", "## Overview\n\n## Procedure\nAdd."),
        ("# !!!\nCount.", "# ???\nAdd."),
        ("1. Count.\n2. Tell.", "1. Add.\n2. Tell."),
        ("## Goal\nTo count.", "## Goal\nTo add."),
        ("## When to use this\nOn words.", "## When to use this\nOn numbers."),
        ("## Step 1\nCount.", "## Step 1\nAdd."),
        ("## Rules\nCount all.", "## Rules\nAdd all."),
        ("## Checklist\n- counted", "## Checklist\n- added"),
        ("### What to do\nCount.", "### What to do\nAdd."),
        ("# Goal\nTo count.", "# Goal\nTo add."),
        ("# Step 2: look\nCount.", "# Step 2: look\nAdd."),
        ("Count:\n```sh\n# install it\nwc\n```", "Add:\n```sh\n# install it\nbc\n```"),
        ("Count:\n~~~\n# install it\nwc\n~~~", "Add:\n~~~\n# install it\nbc\n~~~"),
        ("Count:\n```sh\n# never closed\nwc", "Add:\n```sh\n# never closed\nbc"),
        ("    # indented\nCount.", "    # indented\nAdd."),
        ("---\nkind: x\n---\nCount.", "---\nkind: x\n---\nAdd."),
    ],
    ids=[
        "a purpose", "steps", "no heading", "sections", "signs", "a list",
        "a goal", "when to use it", "a step", "rules", "a checklist", "any section",
        "a goal as heading", "a step as heading", "a fence", "another fence", "an open fence",
        "indented", "facts in front",
    ],
)  # fmt: skip
def test_no_untitled_skill_covers_another(one: str, two: str) -> None:
    first, second, again = named_skills([("r1", one), ("r2", two), ("r1", one)], {})
    assert first.name == again.name != second.name
    shelf = SkillCatalog().with_saved((first, second))
    assert {skill.ref for skill in shelf.skills.values()} == {"r1", "r2"}


@pytest.mark.parametrize(
    ("text", "kept"),
    [(WORDS, True), (WORDS.rsplit(" ", 1)[0], False), ("", False), ("word " * 20_000, False)],
    ids=["thirty words", "twenty-nine", "none", "a book"],
)
def test_what_is_worth_keeping(text: str, kept: bool) -> None:
    assert is_skill(text) is kept


@pytest.mark.parametrize(
    ("markdown", "purpose"),
    [
        ("# A\n\n## Purpose\n\nTo count.\n\n## Steps\nx", "To count."),
        ("# A\n\nFirst line.\nSecond.", "First line."),
        ("# A\n## Steps", ""),
        ("---\nname: a\ndescription: 'To count.'\n---\n# A\nFirst line.", "To count."),
        ("---\nname: a\npurpose: To count.\n---\nFirst line.", "To count."),
        ("---\nname: a\n---\n# A\nFirst line.", "First line."),
        ("---\ndescription: >-\n  To count.\n---\nFirst line.", "First line."),
    ],
)
def test_the_purpose(markdown: str, purpose: str) -> None:
    assert purpose_of(markdown) == purpose
    assert catalog_line("a", markdown) == (f"a: {purpose}" if purpose else "a")


def test_a_catalog_line_is_short() -> None:
    line = catalog_line("a", f"# A\n{'word ' * 100}")
    assert len(line) == 150 and line.endswith("…")


def test_several_of_one_name_are_versions_of_it() -> None:
    saved = named_skills(
        [("r1", "# Skill: A\nx"), ("r2", "# Skill: B\nx"), ("r3", "# a\ny")], {"b": 4}
    )
    assert [(item.name, item.ref, item.version) for item in saved] == [
        ("a", "r1", 1),
        ("b", "r2", 5),
        ("a", "r3", 2),
    ]
    kept = SkillCatalog().with_saved(saved)
    assert (kept.skills["a"].ref, kept.skills["a"].version) == ("r3", 2)
    assert kept.versions() == {"a": 2, "b": 5}


def test_a_run_shadows_skills_of_earlier_runs_and_takes_no_version_from_them() -> None:
    before = {"a": KnownSkill(ref="old", line="a", version=7, earlier=True)}
    found = SkillCatalog().with_earlier(before)
    assert found.versions() == {}
    found = found.with_saved([SavedSkill(name="a", ref="new", line="a")])
    assert (found.skills["a"].ref, found.skills["a"].version) == ("new", 1)
    assert found.with_earlier(before).skills["a"].ref == "new"


@pytest.mark.parametrize(
    "reference",
    [
        "counting-words",
        "counting_words",
        "Counting Words",
        " counting-words ",
        "skills/counting-words.md",
        "Skill: counting-words",
    ],
)
def test_a_name_is_found_however_it_is_written(reference: str) -> None:
    assert resolve([reference], shelf(counting_words="ref")).known == {"counting-words": "ref"}


def test_names_texts_unknown_and_blank_ones_are_told_apart() -> None:
    found = resolve(
        ["a", "nobody-knows", "# Skill: A\ndo it", "", "  ", "nobody-knows"], shelf(a="ref")
    )
    assert found.known == {"a": "ref"}
    assert found.written == ("# Skill: A\ndo it",)
    assert found.unknown == ("nobody-knows",)
    assert "no skill nobody-knows" in found.note
    assert resolve(["a"], shelf(a="ref")).note == ""


def test_a_shelf_is_bounded() -> None:
    saved = [SavedSkill(name=f"s{n}", ref="r", line="l") for n in range(500)]
    kept = SkillCatalog().with_saved(saved)
    assert len(kept.skills) == 100
    assert "s499" in kept.skills


def test_the_newest_have_a_place_on_a_full_shelf() -> None:
    files = {f"f{n:02}": SkillFile(ref="r", line="l") for n in range(98)}
    asked = KnownSkill(ref="r", line="asked", earlier=True)
    full = SkillCatalog().with_files(files).with_earlier({"asked": asked})
    full = full.with_saved([SavedSkill(name="own", ref="r", line="own")])
    assert len(full.skills) == 100
    changed = full.with_files({"f00": SkillFile(ref="changed", line="l")})
    after = changed.with_saved([SavedSkill(name="newest", ref="r", line="newest")])
    assert full.skills.keys() - after.skills.keys() == {"f01"}
    # A fork looks up earlier skills anew: none of its own that is newer makes room for them.
    forked = after.with_earlier({"another": asked})
    assert after.skills.keys() - forked.skills.keys() == {"f02"}


@given(st.lists(st.text(max_size=30), max_size=8))
def test_every_reference_is_one_thing(asked: list[str]) -> None:
    found = resolve(asked, shelf(a="ref", b_c="ref"))
    told = len({*found.written, *found.unknown}) + len(found.known)
    assert told <= len({item for item in asked if item.strip()})


def test_headings_of_sections_name_no_skill() -> None:
    first, second = "## Purpose\nTo look.\n## Steps\nLook.", "## Purpose\nTo hear.\n## Steps\nHear."
    names = {skill_name(text) for text in (first, second)}
    assert len(names) == 2 and "purpose" not in names
    assert skill_name(f"{first}\n# Skill: Looking") == "looking"


LONG = f"# Skill: Counting\n\n{WORDS}"


@pytest.mark.parametrize(
    ("saved", "version", "events"),
    [([], 1, 0), (["r1"], 1, 0), (["r2"], 2, 1), (["r2", "r1"], 3, 2), (["r2", "r2"], 2, 1)],
    ids=["nothing", "the same text", "another", "another and back", "another, twice"],
)
def test_a_text_that_was_given_again_is_no_new_version(
    saved: list[str], version: int, events: int
) -> None:
    before = SkillCatalog().with_saved([SavedSkill(name="a", ref="r1", line="a")])
    new = [SavedSkill(name="a", ref=ref, line="a", version=n) for n, ref in enumerate(saved, 2)]
    after = before.with_saved(new)
    assert after.skills["a"].version == version
    assert after.skills["a"].ref == (saved[-1] if saved else "r1")
    assert len(before.new(new)) == events


def test_a_changed_file_wins_and_an_equal_one_changes_nothing() -> None:
    own = SkillCatalog().with_saved([SavedSkill(name="a", ref="r1", line="a", version=3)])
    files = {"a": SkillFile(ref="r1", line="a"), "b": SkillFile(ref="r2", line="b: x")}
    with_files = own.with_files(files)
    assert with_files.skills["a"] == own.skills["a"]
    assert with_files.skills["b"] == KnownSkill(ref="r2", line="b: x", earlier=True)
    changed = with_files.with_files({"a": SkillFile(ref="r9", line="a: y")})
    assert changed.skills["a"] == KnownSkill(ref="r9", line="a: y", version=4)
    # A file that was there before is nothing that the run wrote, whoever changed it since.
    assert changed.with_files({"b": SkillFile(ref="r8", line="b")}).versions() == {"a": 4}


def test_what_the_manager_wrote_whole_is_named_once_it_was_kept() -> None:
    known = shelf(known="r0")
    asked = ["known", LONG, f"  {LONG}\n", "# Short\ntoo few", "nobody"]
    assert given_whole(asked, known) == (LONG,)
    saved = [SavedSkill(name="counting", ref="r1", line="counting")]
    kept = known.with_saved(saved)
    told = by_name(asked, (LONG,), saved, kept)
    assert told == ("known", "counting", "counting", "# Short\ntoo few", "nobody")


def test_of_two_texts_of_one_name_the_covered_one_stays_as_it_is() -> None:
    other = f"{LONG} And then rest."
    saved = [SavedSkill(name="counting", ref=ref, line="counting") for ref in ("r1", "r2")]
    kept = SkillCatalog().with_saved(saved)
    assert by_name((LONG, other), (LONG, other), saved, kept) == (LONG, "counting")


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("skills/a.md", True), ("skills/A.MD", True), ("skills/a.txt", False),
        ("docs/skills/a.md", False), ("skills.md", False), ("skillset/a.md", False),
        ("skills/deep/a.md", False),
    ],
)  # fmt: skip
def test_which_changed_paths_are_skills(path: str, is_one: bool) -> None:
    assert is_skill_file(path) is is_one
