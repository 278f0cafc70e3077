"""A shadow of a repository's `.git`: its objects, refs and index, without its configuration.

A hostile repository hides programs in its configuration (fsmonitor, filters, textconv, hooks,
signature checks, includes, aliases, transports). The shadow has a configuration of its own, so none
of these has to be switched off by name.
"""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perdure.adapters.git.run_git import run_git
from perdure.domain.foundation.errors import ToolFailure

# How files are stored; with a plain word as value each of these is harmless.
_KEPT_SETTINGS = frozenset(
    {
        "core.filemode",
        "core.symlinks",
        "core.ignorecase",
        "core.autocrlf",
        "core.eol",
        "core.precomposeunicode",
        "extensions.objectformat",
    }
)
_PLAIN_VALUE = re.compile(r"[a-z0-9]{1,16}")
_NEEDED = ("objects", "refs")
_SHARED = ("objects", "refs", "packed-refs", "info", "logs", "shallow")
# The files by which a repository uses the objects of another one.
_BORROWING = ("alternates", "http-alternates")
_SMALL = 64 * 1024
MARKER = ".git"
WORKTREES = "worktrees"


@dataclass(frozen=True, slots=True)
class Repository:
    """The git folders of a working folder: `own` for this worktree, `common` for all worktrees."""

    work: str
    own: Path
    common: Path


@dataclass(frozen=True, slots=True)
class Shadow:
    """The environment by which git uses a shadow, and the paths that it must be able to read."""

    environment: dict[str, str]
    view: tuple[str, ...]


def find_repository(work: str) -> Repository | None:
    """The repository whose top folder is `work`, or None (see `why_no_repository`).

    A `.git` file is trusted only if the folder that it names points back here, as git writes it.
    Otherwise a folder could be made to show any repository of the machine. For the same reason no
    part of a repository that is read may be a link, or refer to another place.
    """
    marker = Path(work, MARKER)
    try:
        status = marker.lstat()
    except OSError:
        return None
    # Git follows `commondir` in any git folder, also to a repository elsewhere.
    if stat.S_ISDIR(status.st_mode):
        found = Repository(work, marker, marker) if not _exists(marker / "commondir") else None
    else:
        found = _linked(work, marker) if stat.S_ISREG(status.st_mode) else None
    return found if found and _is_own(found) else None


def why_no_repository(work: str) -> str:
    """Why no repository is used here although there is a `.git`; empty if there is none."""
    marker = Path(work, MARKER)
    if not _exists(marker):
        return ""
    if marker.is_file() and not marker.is_symlink():
        return (
            "Its .git file names a repository elsewhere that does not name this folder, as in a "
            "submodule. Whoever starts the run can name the repository above, or a clone."
        )
    return (
        "Its .git borrows from elsewhere (a link, alternates or a common folder), which could show "
        "another repository of the machine. Whoever starts the run can make a full clone: "
        "git clone --no-hardlinks --dissociate."
    )


def _is_own(repository: Repository) -> bool:
    """Whether everything that is read belongs to the repository, as plain folders and files."""
    common, own = repository.common, repository.own
    return (
        all((common / name).is_dir() for name in _NEEDED)
        and not any(_exists(common / "objects" / "info" / name) for name in _BORROWING)
        and all(_is_plain(common / name) for name in _SHARED)
        and all(_is_plain(path) for path in (own / "index", *own.glob("sharedindex.*")))
    )


def _is_plain(path: Path) -> bool:
    """Whether there is nothing, a file, or a folder of these; no link, pipe or device."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return True
    if not stat.S_ISDIR(mode):
        return stat.S_ISREG(mode)
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not _is_plain(Path(entry.path)):
                    return False
            elif not entry.is_file(follow_symlinks=False):
                return False
    return True


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _linked(work: str, marker: Path) -> Repository | None:
    # The folder that `.git` names must name this folder, and be in the repository's `worktrees`.
    own_path = small_text(marker).removeprefix("gitdir:").strip()
    own = Path(work, own_path)
    back = small_text(own / "gitdir").strip()
    common_text = small_text(own / "commondir").strip()
    # A path that is not absolute begins at the folder of its file (`worktree.useRelativePaths`).
    if not back or not common_text or os.path.realpath(own / back) != os.path.realpath(marker):
        return None
    common = Path(os.path.realpath(own / common_text))
    if Path(os.path.realpath(own)).parent != common / WORKTREES or _exists(common / "commondir"):
        return None
    return Repository(work, own, common)


@contextmanager
def shadow(repository: Repository, settings: Mapping[str, str]) -> Generator[Shadow]:
    """A shadow of this repository, which exists inside the block."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-git-"))
    try:
        _fill(folder, repository, settings)
        yield Shadow(
            environment={
                "GIT_DIR": str(folder),
                "GIT_WORK_TREE": repository.work,
                "GIT_INDEX_FILE": str(_index(folder, repository)),
            },
            view=(repository.work, str(folder), *_parts(repository)),
        )
    finally:
        # It removes the links, and nothing of the repository that they lead to.
        shutil.rmtree(folder, ignore_errors=True)


async def read_settings(repository: Repository) -> dict[str, str]:
    """The settings of how files are stored, read without following includes."""
    path = repository.common / "config"
    if path.is_symlink() or not path.is_file():
        return {}
    listed = await run_git(
        ["config", "--file", str(path.absolute()), "--no-includes", "--null", "--list"],
        # Not in the repository, where git would read its configuration by itself.
        cwd="/",
        cap=1024 * 1024,
    )
    found: dict[str, str] = {}
    for item in listed.stdout.decode(errors="replace").split("\0"):
        key, _, value = item.partition("\n")
        if key.lower() in _KEPT_SETTINGS and _PLAIN_VALUE.fullmatch(value.lower()):
            found[key.lower()] = value.lower()
    return found


def _parts(repository: Repository) -> list[str]:
    own = (repository.own / "index", *repository.own.glob("sharedindex.*"))
    shared = (repository.common / name for name in _SHARED)
    return [str(path.absolute()) for path in (*shared, *own) if path.exists()]


def _fill(folder: Path, repository: Repository, settings: Mapping[str, str]) -> None:
    for name in _SHARED:
        source = repository.common / name
        if source.exists() and not source.is_symlink():
            (folder / name).symlink_to(source.absolute())
    for index in repository.own.glob("sharedindex.*"):
        if not index.is_symlink():
            (folder / index.name).symlink_to(index.absolute())
    head = small_text(repository.own / "HEAD")
    if not re.fullmatch(r"(ref: refs/[^\s\0]+|[0-9a-f]{40,64})\s*", head):
        raise ToolFailure("The repository's HEAD cannot be read.", reason="not_found")
    # The text that was checked, not a link: the file may be changed after the check.
    (folder / "HEAD").write_text(head, encoding="utf-8")
    (folder / "config").write_text(_configuration(settings), encoding="utf-8")


def _index(folder: Path, repository: Repository) -> Path:
    index = repository.own / "index"
    return folder / "index" if index.is_symlink() else index.absolute()


def _configuration(settings: Mapping[str, str]) -> str:
    # Git reads `extensions` only in format version 1.
    version = 1 if "extensions.objectformat" in settings else 0
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tbare = false"]
    for key, value in sorted(settings.items()):
        section, _, name = key.partition(".")
        lines += [f"[{section}]", f"\t{name} = {value}"]
    return "\n".join(lines) + "\n"


def small_text(path: Path) -> str:
    """The text of a small regular file, or ""; reading a pipe would wait for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, _SMALL).decode(errors="replace")
    finally:
        os.close(descriptor)
