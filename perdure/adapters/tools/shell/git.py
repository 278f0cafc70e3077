"""The verbs of git that only read, safe on a repository that a model may have written.

Three layers protect the worker, and each alone stops most attacks: the tables of exact flags here,
the fixed environment and overrides of `perdure.adapters.git.run_git`, and a shadow repository
without the configuration of the original (`perdure.adapters.git.safe_repository`).
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perdure.adapters.files.paths import SECRET_GLOBS, parse, shown, why_protected
from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.adapters.git.run_git import GitOutput, run_git
from perdure.adapters.git.safe_repository import (
    find_repository,
    read_settings,
    shadow,
    why_no_repository,
)
from perdure.adapters.tools.shell.grammar import (
    Flag,
    Grammar,
    Parsed,
    Word,
    command_error,
    is_count,
    is_text,
    matching,
    one_of,
    read,
    switch,
)
from perdure.domain.foundation.errors import ToolFailure

OUTPUT_CAP = 1_000_000

# Without a dash at the beginning, which would make it a flag, and without a colon, which would name
# the content of a file, perhaps of a dotenv file.
_REVISION = re.compile(r"[A-Za-z0-9_@^][A-Za-z0-9_./@{}^~+-]*")
_DATE = matching(r"[A-Za-z0-9 :.,+-]{1,40}")
# Without %G, which runs a program to check signatures, and without %( ) and %x, which could hide
# it.
_FORMAT = re.compile(
    r"(?:[^%]|%(?:[HhTtPpsbBadDSefgNnwC%]|a[neEldDrtiIsh]|c[neEldDrtiIsh])){1,200}"
)
_NAMED_FORMATS = one_of("oneline", "short", "medium", "full", "fuller", "reference", "raw")
# Pathspecs that exclude dotenv files at any depth, and all in folders of such a name.
_DOTENV = tuple(
    f":(top,exclude,glob,icase)**/{pattern}{below}"
    for pattern in SECRET_GLOBS
    for below in ("", "/**")
)
# What shows contents, or reveals them: which commits -S finds.
_CONTENT = ("p", "U", "S")
# With these, git follows a file through other commits than a plain list of its names would show.
_NOT_FOLLOWED = ("S", "graph", "reverse")
# Those that choose commits; all others choose what is shown of them.
_CHOOSING = frozenset(
    {
        "all", "merges", "no-merges", "first-parent", "skip", "i", "F", "since", "until", "author",
        "grep", "M", "follow",
    }
)  # fmt: skip


def _is_format(text: str) -> bool:
    kind, colon, rest = text.partition(":")
    if colon and kind in {"format", "tformat"}:
        return _FORMAT.fullmatch(rest) is not None
    return _NAMED_FORMATS(text) or ("%" in text and _FORMAT.fullmatch(text) is not None)


_DIFF_FLAGS = (
    switch("--stat"),
    switch("--shortstat"),
    switch("--numstat"),
    switch("--summary"),
    switch("--name-only"),
    switch("--name-status"),
    switch("-w", "--ignore-all-space"),
    switch("-b", "--ignore-space-change"),
    switch("--word-diff"),
    switch("--minimal"),
    switch("-M", "--find-renames"),
    Flag(("-U", "--unified"), is_count, glued=True),
    Flag(("--diff-filter",), matching(r"[ACDMRTUXBacdmrtuxb]{1,10}")),
)
_LOG_FLAGS = (
    Flag(("-n", "--max-count"), is_count, glued=True),
    Flag(("--skip",), is_count),
    switch("--oneline"),
    switch("-p", "-u", "--patch"),
    switch("-s", "--no-patch"),
    switch("--graph"),
    switch("--all"),
    switch("--reverse"),
    switch("--merges"),
    switch("--no-merges"),
    switch("--first-parent"),
    switch("--decorate"),
    switch("--no-decorate"),
    switch("--abbrev-commit"),
    switch("-i", "--regexp-ignore-case"),
    switch("-F", "--fixed-strings"),
    Flag(("--since", "--after"), _DATE),
    Flag(("--until", "--before"), _DATE),
    Flag(("--author",), is_text),
    Flag(("--grep",), is_text),
    Flag(("-S",), is_text, glued=True),
    Flag(("--format", "--pretty"), _is_format),
    Flag(("--date",), one_of("short", "iso", "relative", "local", "unix", "rfc", "human")),
)


@dataclass(frozen=True, slots=True)
class _Verb:
    """One verb: its flags, how its operands are read, and the flags that are always added."""

    grammar: Grammar
    operands: Callable[[Parsed, RootedDirectory], tuple[list[str], list[str]]]
    added: tuple[str, ...] = ()
    hides_secrets: bool = False


def _revisions_and_paths(given: Parsed, files: RootedDirectory) -> tuple[list[str], list[str]]:
    """Operands as revisions and paths: before `--` they are revisions unless such a file exists."""
    before = given.operands if given.divider is None else given.operands[: given.divider]
    after = [] if given.divider is None else given.operands[given.divider :]
    revisions: list[str] = []
    paths = list(after)
    for operand in before:
        if given.divider is None and _is_file(files, operand):
            paths.append(operand)
        else:
            revisions.append(_revision(operand))
    return revisions, [_path(path) for path in paths]


def _objects(given: Parsed, files: RootedDirectory) -> tuple[list[str], list[str]]:
    """As `_revisions_and_paths`, and also `revision:path` for an old version of a file."""
    named = [operand for operand in given.operands if ":" in operand]
    if not named:
        return _revisions_and_paths(given, files)
    if len(given.operands) != len(named):
        raise command_error("git show takes either revisions or revision:path")
    found: list[str] = []
    for operand in named:
        revision, _, path = operand.partition(":")
        # `parse` refuses dotenv files in old versions too.
        found.append(f"{_revision(revision)}:{'/'.join(parse(path, use='read'))}")
    return found, []


def _paths_only(given: Parsed, _files: RootedDirectory) -> tuple[list[str], list[str]]:
    return [], [_path(path) for path in given.operands]


def _blamed(given: Parsed, _files: RootedDirectory) -> tuple[list[str], list[str]]:
    """Always with a revision: to read the working file, git would follow a linked folder."""
    *revisions, path = given.operands
    return [_revision(revision) for revision in revisions] or ["HEAD"], [
        "/".join(parse(path, use="read"))
    ]


# The first two flags keep git from running programs that attributes name.
_SAFE_DIFF = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--submodule=short")

VERBS: dict[str, _Verb] = {
    "status": _Verb(
        Grammar(
            flags=(
                switch("-s", "--short"),
                switch("-b", "--branch"),
                Flag(("--porcelain",), one_of("v1", "v2"), optional=True),
                Flag(("--untracked-files",), one_of("no", "normal", "all")),
                switch("--ignored"),
            ),
            clusters=False,
        ),
        _paths_only,
        ("--ignore-submodules=all", "--no-renames"),
    ),
    "log": _Verb(
        Grammar(
            flags=(*_LOG_FLAGS, *_DIFF_FLAGS, switch("--follow")), clusters=False, count_flag="n"
        ),
        _revisions_and_paths,
        (*_SAFE_DIFF, "--no-show-signature"),
        hides_secrets=True,
    ),
    "diff": _Verb(
        Grammar(flags=(*_DIFF_FLAGS, switch("--cached", "--staged")), clusters=False),
        _revisions_and_paths,
        _SAFE_DIFF,
        hides_secrets=True,
    ),
    "show": _Verb(
        Grammar(flags=(*_LOG_FLAGS, *_DIFF_FLAGS), clusters=False, count_flag="n"),
        _objects,
        (*_SAFE_DIFF, "--no-show-signature"),
        hides_secrets=True,
    ),
    "blame": _Verb(
        Grammar(
            flags=(
                Flag(("-L",), matching(r"[0-9]{1,6},\+?[0-9]{1,6}"), glued=True),
                switch("-w"),
                switch("-e", "--show-email"),
                switch("-s"),
            ),
            minimum=1,
            maximum=2,
            clusters=False,
        ),
        _blamed,
        ("--no-textconv",),
    ),
    "branch": _Verb(
        Grammar(
            flags=(
                switch("--list", "-l"),
                switch("-a", "--all"),
                switch("-r", "--remotes"),
                switch("-v", "--verbose"),
                switch("--show-current"),
                Flag(("--contains",), lambda text: _REVISION.fullmatch(text) is not None),
                Flag(("--merged",), lambda text: _REVISION.fullmatch(text) is not None),
            ),
            maximum=0,
            clusters=False,
        ),
        lambda _given, _files: ([], []),
    ),
    "ls-files": _Verb(
        Grammar(
            flags=(
                switch("-c", "--cached"),
                switch("-m", "--modified"),
                switch("-d", "--deleted"),
                switch("-o", "--others"),
                switch("-s", "--stage"),
                switch("--exclude-standard"),
            ),
            clusters=False,
        ),
        _paths_only,
    ),
}


async def git(words: Sequence[Word], *, root: str) -> str:
    """Run one reading verb; `words` are those after `git`."""
    if not words or not words[0].bare or words[0].text not in VERBS:
        found = words[0].text[:80] if words else "nothing"
        raise command_error(f"git takes one of {', '.join(VERBS)} first and got {found!r}")
    name = words[0].text
    verb = VERBS[name]
    given = read(f"git {name}", words[1:], verb.grammar)
    with RootedDirectory(root) as files:
        revisions, paths = verb.operands(given, files)
    commits = [part for named in revisions for part in _ends(named)]
    if _shows_what_it_follows(given):
        _require_open(await _run(root, _names(verb, given, revisions, paths), commits))
    return _page(await _run(root, _arguments(name, verb, given, revisions, paths), commits))


def _shows_what_it_follows(given: Parsed) -> bool:
    """Whether git follows a file over renames and shows its contents, also those of before."""
    if not (given.has("follow") and given.has(*_CONTENT)):
        return False
    if given.has(*_NOT_FOLLOWED):
        raise command_error("git log --follow with -p takes no -S, --graph or --reverse")
    return True


def _names(verb: _Verb, given: Parsed, revisions: list[str], paths: list[str]) -> list[str]:
    """The command that lists every name that the followed file had, in as many commits or more."""
    flags = _flags(verb, given, _CHOOSING)
    listing = ("--name-status", "-z", "--format=")
    return ["log", *verb.added, *flags, *listing, *revisions, "--", *paths]


def _require_open(names: GitOutput) -> None:
    """Refuse to follow a file that was a dotenv file: git takes no exclusions with --follow."""
    if names.cut:
        raise command_error("the file had too many names to follow it with -p")
    for name in filter(None, re.split(r"[\0\n]", _page(names))):
        if reason := why_protected(tuple(name.split("/")), use="read"):
            raise ToolFailure(
                f"This would show {shown(name)}, which is {reason}. Leave out --follow.",
                reason="protected",
            )


async def _run(root: str, arguments: list[str], commits: list[str]) -> GitOutput:
    """Run git if all revisions are commits: a bare object id could be any file's content."""
    repository = await asyncio.to_thread(find_repository, root)
    if repository is None:
        why = [reason] if (reason := why_no_repository(root)) else []
        said = ["The workspace is not the top of a git repository of its own.", *why]
        raise ToolFailure(" ".join((*said, "Use find, grep and ls instead.")), reason="not_found")
    with shadow(repository, await read_settings(repository)) as shown_git:
        for revision in commits:
            found = await run_git(
                ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"],
                cwd=root,
                extra=shown_git.environment,
                view=shown_git.view,
            )
            if found.code != 0:
                raise ToolFailure(
                    f"{shown(revision)} is no commit of this repository. Check the revision and "
                    "the path; a file as it was is revision:path.",
                    reason="failed",
                )
        return await run_git(
            arguments, cwd=root, extra=shown_git.environment, view=shown_git.view, cap=OUTPUT_CAP
        )


def _arguments(
    name: str, verb: _Verb, given: Parsed, revisions: list[str], paths: list[str]
) -> list[str]:
    flags = _flags(verb, given)
    listing = ["--list"] if name == "branch" and not given.has("show-current", "list") else []
    is_object = any(":" in revision for revision in revisions)
    asks_for_content = given.has(*_CONTENT)
    shows_content = name == "diff" or asks_for_content or (name == "show" and not is_object)
    follows = given.has("follow") and len(paths) == 1  # whose names were looked at before
    hidden = list(_DOTENV) if verb.hides_secrets and shows_content and not follows else []
    # Git needs one positive pathspec beside the excluding ones.
    if hidden and not paths:
        hidden = [":(top)", *hidden]
    tail = [] if name == "branch" or is_object else ["--", *paths, *hidden]
    return [name, *verb.added, *listing, *flags, *revisions, *tail]


def _flags(verb: _Verb, given: Parsed, keys: frozenset[str] | None = None) -> list[str]:
    """The given flags, or those of them with certain keys, in the words of git."""
    return [
        spelled
        for flag in verb.grammar.flags
        if keys is None or flag.key in keys
        for value in given.flags.get(flag.key, [])
        for spelled in _spelled(flag, value)
    ]


def _spelled(flag: Flag, value: str) -> list[str]:
    """A flag in one word, so that its value cannot be taken for another flag."""
    name = next((name for name in flag.names if name.startswith("--")), flag.names[0])
    if flag.value is None or (flag.optional and not value):
        return [flag.names[0]]
    return [f"{name}={value}" if name.startswith("--") else f"{name}{value}"]


def _ends(revision: str) -> list[str]:
    """The commits that are named by a revision, a range or `revision:path`."""
    parts = re.split(r"\.{2,3}", revision.partition(":")[0])
    return [part.removeprefix("^") for part in parts if part]


def _revision(text: str) -> str:
    for part in re.split(r"\.{2,3}", text):
        if part and not _REVISION.fullmatch(part):
            raise command_error(f"{text[:80]!r} is neither a revision nor a file of the workspace")
    if not text.strip("."):
        raise command_error(f"{text[:80]!r} is not a revision")
    return text


def _path(text: str) -> str:
    return f":(top,literal){'/'.join(parse(text, use='read'))}"


def _is_file(files: RootedDirectory, text: str) -> bool:
    try:
        return files.status(parse(text, use="read")) is not None
    except ToolFailure as failure:
        # Not to be tried as a revision: the model has to hear why it may not read this.
        if failure.reason == "protected":
            raise
        return False


def _page(output: GitOutput) -> str:
    text = output.stdout.decode(errors="replace")
    if output.cut:
        return f"{text}\n[… the output is longer than {OUTPUT_CAP:,} bytes and was cut …]"
    if output.code != 0:
        said = output.stderr.strip().splitlines()
        raise ToolFailure(
            f"git ended with {output.code}: {shown(said[0]) if said else 'no message'}. "
            "Check the revision and the path.",
            reason="failed",
        )
    return text or "(no output)"
