"""Which files of a folder belong to its work: what git would keep, or everything but caches."""

import asyncio
import os
from collections.abc import Iterable, Iterator

from perdure.adapters.files.paths import is_safe_tree_path
from perdure.adapters.files.rooted_files import TEMPORARY_PREFIX, Parts, RootedDirectory
from perdure.adapters.git.run_git import run_git
from perdure.adapters.git.safe_repository import find_repository, read_settings, shadow
from perdure.domain.foundation.errors import StoreError

LIST_CAP = 64 * 1024 * 1024
_CLOSED = frozenset({".git"})
_CACHES = frozenset({".git", "__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"})


async def list_files(root: str, *, also: Iterable[str] = ()) -> list[str]:
    """Paths of the files and links that belong to the work, sorted.

    Args:
        root: the folder; when it is the top of a repository, ignored files are left out.
        also: further paths to look at, whatever the ignore rules say by now (a run may have
            changed them, and a file must not look deleted because of that).
    """
    repository = await asyncio.to_thread(find_repository, root)
    if repository is None:
        names: set[str] | None = None
    else:
        with shadow(repository, await read_settings(repository)) as shown:
            listed = await run_git(
                ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                cwd=root,
                extra=shown.environment,
                view=shown.view,
                cap=LIST_CAP,
            )
        if listed.code != 0:
            raise StoreError(
                f"The files of {root} cannot be listed: {listed.stderr.strip()[:200]}.",
                cure="Check the repository with `git status`.",
            )
        names = {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name}
    with RootedDirectory(root) as files:
        found = (
            set(_walked(files, (), _CACHES))
            if names is None
            else set(_existing(files, names, folders=True))
        )
        found.update(_existing(files, also, folders=False))
    return sorted(path for path in found if is_safe_tree_path(path))


def _existing(files: RootedDirectory, names: Iterable[str], *, folders: bool) -> Iterator[str]:
    """The names that are files or links now; a folder (a nested repository) is looked into."""
    for name in names:
        parts = tuple(part for part in name.split("/") if part)
        if not is_safe_tree_path("/".join(parts)):
            continue
        entry = files.entry(parts)
        if entry is None:
            continue
        if entry.kind in {"file", "link"}:
            yield "/".join(parts)
        elif entry.kind == "folder" and folders:
            yield from _walked(files, parts, _CLOSED)


def _walked(files: RootedDirectory, top: Parts, closed: frozenset[str]) -> Iterator[str]:
    for parts, entry in files.walk(top, skip=closed):
        if entry.kind in {"file", "link"} and not entry.name.startswith(TEMPORARY_PREFIX):
            yield "/".join(parts)
