"""A shadow of a repository's `.git`: its objects, refs and index, and none of its configuration.

Configuration is where a hostile repository hides programs (fsmonitor, filters, textconv, hooks,
signature checks, includes, aliases, transports). The shadow has a configuration of its own, so
there is nothing to switch off one by one.
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

from perdure.adapters.git.process import run_git
from perdure.domain.errors import ToolFailure

# Facts about the files themselves; each is harmless as a plain word.
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
_SMALL = 64 * 1024


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a working folder's git data is: `own` for this worktree, `common` for all of them."""

    work: str
    own: Path
    common: Path


def find_repository(work: str) -> Repository | None:
    """The repository whose top folder is `work`, or None.

    A `.git` file is believed only when the place it names points back here, as git writes it; else
    a folder could be made to show any repository of the machine.
    """
    marker = Path(work, ".git")
    try:
        status = marker.lstat()
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        found: Repository | None = Repository(work, marker, marker)
    else:
        found = _linked(work, marker) if stat.S_ISREG(status.st_mode) else None
    return found if found and _is_own(found.common) else None


def _is_own(common: Path) -> bool:
    """Whether objects and refs are this repository's: links or alternates could show another."""
    return (
        all((common / name).is_dir() and not (common / name).is_symlink() for name in _NEEDED)
        and not (common / "objects" / "info" / "alternates").exists()
        and not (common / "objects" / "info").is_symlink()
    )


def _linked(work: str, marker: Path) -> Repository | None:
    own_path = _small_text(marker).removeprefix("gitdir:").strip()
    own = Path(work, own_path)
    back = _small_text(own / "gitdir").strip()
    common_text = _small_text(own / "commondir").strip()
    if not back or not common_text or os.path.realpath(back) != os.path.realpath(marker):
        return None
    common = Path(os.path.realpath(own / common_text))
    if Path(os.path.realpath(own)).parent != common / "worktrees":
        return None
    return Repository(work, own, common)


@contextmanager
def shadow(repository: Repository, settings: Mapping[str, str]) -> Generator[dict[str, str]]:
    """The environment that makes git read this repository through a shadow, inside the block."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-git-"))
    try:
        _fill(folder, repository, settings)
        yield {
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": repository.work,
            "GIT_INDEX_FILE": str(_index(folder, repository)),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def read_settings(repository: Repository) -> dict[str, str]:
    """The few settings that say how files are stored, read without following includes."""
    path = repository.common / "config"
    if not path.is_file():
        return {}
    listed = await run_git(
        ["config", "--file", str(path.absolute()), "--no-includes", "--null", "--list"],
        cwd="/",
        cap=1024 * 1024,
    )
    found: dict[str, str] = {}
    for item in listed.stdout.decode(errors="replace").split("\0"):
        key, _, value = item.partition("\n")
        if key.lower() in _KEPT_SETTINGS and _PLAIN_VALUE.fullmatch(value.lower()):
            found[key.lower()] = value.lower()
    return found


def _fill(folder: Path, repository: Repository, settings: Mapping[str, str]) -> None:
    for name in _SHARED:
        source = repository.common / name
        if source.exists() and not source.is_symlink():
            (folder / name).symlink_to(source.absolute())
    for index in repository.own.glob("sharedindex.*"):
        if not index.is_symlink():
            (folder / index.name).symlink_to(index.absolute())
    head = _small_text(repository.own / "HEAD")
    if not re.fullmatch(r"(ref: refs/[^\s\0]+|[0-9a-f]{40,64})\s*", head):
        raise ToolFailure("The repository's HEAD cannot be read.", reason="not_found")
    (folder / "HEAD").write_text(head, encoding="utf-8")
    (folder / "config").write_text(_configuration(settings), encoding="utf-8")


def _index(folder: Path, repository: Repository) -> Path:
    index = repository.own / "index"
    return folder / "index" if index.is_symlink() else index.absolute()


def _configuration(settings: Mapping[str, str]) -> str:
    version = 1 if "extensions.objectformat" in settings else 0
    lines = ["[core]", f"\trepositoryformatversion = {version}", "\tbare = false"]
    for key, value in sorted(settings.items()):
        section, _, name = key.partition(".")
        lines += [f"[{section}]", f"\t{name} = {value}"]
    return "\n".join(lines) + "\n"


def _small_text(path: Path) -> str:
    """A small regular file's text, or nothing; a pipe here would wait for ever."""
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
