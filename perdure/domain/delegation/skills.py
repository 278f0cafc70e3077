"""Skills inside a delegation run: which are kept, how they are named, and how they are found.

The latest of a name wins inside the run, and all versions are kept. A skill of earlier runs is only
shadowed: what a run writes enters other runs when it was accepted and a person approved it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.memory.recall import RecallReport
from perdure.domain.memory.skills import catalog_line, skill_name, slug

# A shorter text is a remark, not a procedure.
FEWEST_WORDS = 30
MOST_CHARACTERS = 64_000
# Each has a line in every prompt of the manager.
MOST_SKILLS = 100
# A tenth of the tokens that a tree has by default.
RECALL_TOKENS = 1_000_000
FOLDER = "skills"


class KnownSkill(FrozenModel):
    """A skill that workers may be given: where its text is, its catalog line, and its version.

    `earlier` skills come from runs before this one, or from people.
    """

    ref: str
    line: str
    version: int = 1
    earlier: bool = False


class SkillCatalog(FrozenModel):
    """The skills of a run, by name."""

    skills: Mapping[str, KnownSkill] = {}

    @property
    def catalog(self) -> tuple[str, ...]:
        """One line a skill, by name."""
        return tuple(self.skills[name].line for name in sorted(self.skills))

    def with_earlier(self, found: Mapping[str, KnownSkill]) -> "SkillCatalog":
        """The catalog with earlier skills, which those of the run itself shadow."""
        return self._with({name: one for name, one in found.items() if name not in self.skills})

    def new(self, saved: Sequence["SavedSkill"]) -> tuple["SavedSkill", ...]:
        """Those that differ from what the run has: the same text again is no new version."""
        known = {name: skill.ref for name, skill in self.skills.items()}
        found: list[SavedSkill] = []
        for item in saved:
            if known.get(item.name) != item.ref:
                found.append(item)
            # Followed item by item: another text and back again are two versions.
            known[item.name] = item.ref
        return tuple(found)

    def with_files(self, found: Mapping[str, "SkillFile"]) -> "SkillCatalog":
        """The catalog with the skill files of the working folder: a changed file wins."""
        changed = {
            name: _after(self.skills.get(name), file)
            for name, file in found.items()
            # A file with the same text is no change: what the run writes down lies there as well.
            if name not in self.skills or self.skills[name].ref != file.ref
        }
        return self._with(changed)

    def with_saved(self, saved: Sequence["SavedSkill"]) -> "SkillCatalog":
        """The catalog with newly written skills: the latest of a name wins."""
        return self._with(
            {
                item.name: KnownSkill(ref=item.ref, line=item.line, version=item.version)
                for item in self.new(saved)
            }
        )

    def with_taken_over(self, found: Mapping[str, KnownSkill]) -> "SkillCatalog":
        """The catalog with skills of other runs of the tree, which are newer than its own."""
        return self._with(found)

    def _with(self, new: Mapping[str, KnownSkill]) -> "SkillCatalog":
        others = {name: skill for name, skill in self.skills.items() if name not in new}
        # New ones go to the end, since the cut takes the oldest.
        kept = list({**others, **new}.items())[-MOST_SKILLS:]
        return SkillCatalog(skills=dict(kept))

    def versions(self) -> dict[str, int]:
        """The newest version of each skill that this run wrote."""
        return {name: item.version for name, item in self.skills.items() if not item.earlier}


class SavedSkill(ActivityMessage):
    """A skill that was kept: its name, the address of its text, its catalog line and version."""

    name: str
    ref: str
    line: str
    version: int = 1


class SkillFile(ActivityMessage):
    """A skill that is a file of the working folder: the address of its text, its catalog line."""

    ref: str
    line: str


class ReadSkillsRequest(ActivityMessage):
    """Look into the folder `skills` of a run's working folder."""

    run: str
    root: str


class ReadSkillsReport(ActivityMessage):
    """The skills there by name, which is that of the file; `problems` tell what nobody can read."""

    skills: dict[str, SkillFile] = {}
    problems: tuple[str, ...] = ()
    seconds: float = 0.0


class SaveSkillsRequest(ActivityMessage):
    """Keep what workers and managers wrote down.

    `texts` are addresses of Markdown, in order, `written` Markdown itself, before these. With a
    `folder` the skills are written there as files too. `versions` are those that the run has by
    now.
    """

    run: str
    root_run: str
    iteration: int
    texts: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    now: datetime
    versions: dict[str, int] = {}
    folder: str | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class SkillText:
    """A skill as its file has it; `name` is that of the file."""

    name: str
    markdown: str
    line: str


@dataclass(frozen=True, slots=True)
class SkillTexts:
    """The skills of a folder, and what is wrong with files that are none."""

    texts: tuple[SkillText, ...] = ()
    problems: tuple[str, ...] = ()


class SaveSkillsReport(ActivityMessage):
    """The skills that were kept; `short` counts those with too few words to be one."""

    saved: tuple[SavedSkill, ...] = ()
    short: int = 0
    seconds: float = 0.0


class OfferSkillsRequest(ActivityMessage):
    """Which skills of earlier runs and of people fit the task; `asked` ones come first.

    Without `search` only those are looked for that are named. `written` are skills that runs of
    the same tree, that of `root_run`, wrote. Who searches is also told what earlier runs learned,
    in `recall_tokens` at most.
    """

    run: str
    root_run: str
    goal: str
    now: datetime
    category: str | None = None
    asked: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    search: bool = True
    recall_tokens: int = RECALL_TOKENS


class OfferSkillsReport(ActivityMessage):
    """The skills by name, those of the same tree, and the names that there is no skill for.

    `recalled` is what earlier runs learned of such work; None: nobody asked.
    """

    skills: dict[str, KnownSkill] = {}
    written: dict[str, KnownSkill] = {}
    missing: tuple[str, ...] = ()
    recalled: RecallReport | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ResolvedReferences:
    """What references in an envelope stand for: known skills, Markdown given whole, and neither."""

    known: Mapping[str, str]
    written: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Tell the manager which skill names are unknown; empty if all are known."""
        if not self.unknown:
            return ""
        return f"There is no skill {', '.join(self.unknown)}; the worker was not given it."


def given_whole(asked: Iterable[str], shelf: SkillCatalog) -> tuple[str, ...]:
    """The references that are Markdown of a new skill, each once."""
    written = resolve(tuple(asked), shelf).written
    return tuple(text for text in written if is_skill(text))


def by_name(
    asked: Sequence[str], written: Sequence[str], saved: Sequence[SavedSkill], shelf: SkillCatalog
) -> tuple[str, ...]:
    """References in which each `written` text that was kept is replaced by its name.

    One that a later text of the same name covers stays as it is.
    """
    names = {
        text: item.name
        for text, item in zip(written, saved, strict=True)
        if item.name in shelf.skills and shelf.skills[item.name].ref == item.ref
    }
    return tuple(names.get(text.strip(), text) for text in asked)


def is_skill(markdown: str) -> bool:
    """Whether a text has a sensible length for a skill."""
    return len(markdown.split()) >= FEWEST_WORDS and len(markdown) <= MOST_CHARACTERS


def named_skills(
    texts: Sequence[tuple[str, str]], versions: Mapping[str, int]
) -> tuple[SavedSkill, ...]:
    """Skills out of pairs of address and Markdown; several of one name are versions of it."""
    counted = dict(versions)
    saved: list[SavedSkill] = []
    for ref, markdown in texts:
        name = skill_name(markdown)
        counted[name] = counted.get(name, 0) + 1
        line = catalog_line(name, markdown)
        saved.append(SavedSkill(name=name, ref=ref, line=line, version=counted[name]))
    return tuple(saved)


def resolve(asked: Sequence[str], shelf: SkillCatalog) -> ResolvedReferences:
    """What references stand for: names first, hyphens and underscores alike; else Markdown.

    A reference of one line that is no name of a skill is unknown: half a procedure is none.
    """
    by_slug = {slug(name): name for name in shelf.skills}
    known: dict[str, str] = {}
    written: list[str] = []
    unknown: list[str] = []
    for reference in (item.strip() for item in asked):
        name = by_slug.get(slug(_bare(reference)))
        if not reference:
            continue
        # Markdown whose slug happens to be a name is a new text, and not that skill.
        if name is not None and "\n" not in reference:
            known[name] = shelf.skills[name].ref
        elif "\n" in reference:
            written.append(reference)
        else:
            unknown.append(reference[:80])
    return ResolvedReferences(known, tuple(dict.fromkeys(written)), tuple(dict.fromkeys(unknown)))


def is_skill_file(path: str) -> bool:
    """Whether a changed path of a working folder is one of its skills."""
    folder, _, name = path.rpartition("/")
    return folder == FOLDER and name.casefold().endswith(".md")


def _after(before: KnownSkill | None, file: SkillFile) -> KnownSkill:
    """A file as a skill of the run; it comes from before the run unless the run wrote it."""
    if before is None:
        return KnownSkill(ref=file.ref, line=file.line, earlier=True)
    version = before.version + 1
    return KnownSkill(ref=file.ref, line=file.line, version=version, earlier=before.earlier)


def _bare(reference: str) -> str:
    """A name without what models write around it: `skills/x.md`, "Skill: x"."""
    name = reference.removeprefix(f"{FOLDER}/").removesuffix(".md")
    return name[6:] if name.casefold().startswith("skill:") else name
