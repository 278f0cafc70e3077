"""Makes working copies: a git worktree with the user's current files, or a plain copy."""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from perdure.adapters.files.rooted_files import Parts, RootedDirectory, remove_folder
from perdure.adapters.git.run_git import run_git
from perdure.adapters.git.safe_repository import (
    MARKER,
    WORKTREES,
    Repository,
    find_repository,
    read_settings,
    shadow,
)
from perdure.domain.foundation.errors import InvalidInput, StoreAway, ToolFailure

COPY_CAP = 200 * 1024**2
_NAMED = 3
_NOTE_BYTES = 16 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def require_size(source: str, paths: Sequence[str], *, cap: int = COPY_CAP) -> None:
    """Refuse a folder that is too large for a plain copy; the error names its largest files."""
    sizes: list[tuple[int, str]] = []
    with RootedDirectory(source) as files:
        for path in paths:
            entry = files.entry(tuple(path.split("/")))
            sizes.append((entry.status.st_size if entry else 0, path))
    total = sum(size for size, _ in sizes)
    if total > cap:
        largest = ", ".join(path for _, path in sorted(sizes, reverse=True)[:_NAMED])
        raise InvalidInput(
            f"The workspace {source} holds {total / 1024**2:.0f} MB, and a copy may hold "
            f"{cap / 1024**2:.0f} MB (largest: {largest}).",
            cure="Make it a git repository that ignores what is large, or point `workspace` at a "
            "smaller folder.",
        )


def copy_files(source: str, target: str, paths: Sequence[str]) -> None:
    """Copy files and links as they are, with their folders; special files are left out."""
    with RootedDirectory(source) as origin, RootedDirectory(target) as copy:
        for path in paths:
            _copy_one(origin, copy, tuple(path.split("/")))


def _copy_one(origin: RootedDirectory, copy: RootedDirectory, parts: Parts) -> None:
    entry = origin.entry(parts)
    if entry is None or entry.kind not in {"file", "link"}:
        return
    with copy.folder(parts[:-1], create=True) as folder:
        if entry.kind == "link":
            os.symlink(origin.link_target(parts), parts[-1], dir_fd=folder)
            return
        # The run may change its copy of a file that is read-only for the user.
        mode = entry.status.st_mode & 0o777 | 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with origin.file(parts) as descriptor:
            target = os.open(parts[-1], flags, mode, dir_fd=folder)
            # A duplicate, since `origin.file` closes its own descriptor.
            with os.fdopen(os.dup(descriptor), "rb") as reader, os.fdopen(target, "wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)


async def add_worktree(repository: Repository, root: str) -> bool:
    """Register `root` as a worktree at the user's commit, without files; False if that fails.

    The registration is written here in git's own format, because git would read the repository's
    configuration for it and could be led to another repository. Nothing is checked out: the user's
    files are copied as they are, including uncommitted ones.
    """
    with shadow(repository, await read_settings(repository)) as shown:
        found = await run_git(
            ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"],
            cwd=repository.work,
            extra=shown.environment,
            view=shown.view,
        )
    commit = found.stdout.decode(errors="replace").strip()
    if found.code != 0 or not _COMMIT.fullmatch(commit):
        return False
    try:
        return await asyncio.to_thread(_register, repository, root, commit)
    except (OSError, ToolFailure, StoreAway):
        await asyncio.to_thread(_forget_registration, repository.common, root)
        return False


async def remove_worktree(source: str, root: str) -> None:
    """Remove a worktree and its registration; it is no error if they are gone already."""
    await asyncio.to_thread(remove_folder, root)
    repository = await asyncio.to_thread(find_repository, source)
    if repository is not None:
        await asyncio.to_thread(_forget_registration, repository.common, root)


def _register(repository: Repository, root: str, commit: str) -> bool:
    with RootedDirectory(repository.common) as files:
        with files.folder((WORKTREES,), create=True) as registered:
            name = _free_name(registered)
        own = (WORKTREES, name)
        with files.folder(own) as folder:
            # `gitdir` comes first: by it the registration is found and removed after a crash.
            files.replace(folder, "gitdir", f"{root}/{MARKER}\n".encode())
            files.replace(folder, "commondir", b"../..\n")
            files.replace(folder, "HEAD", f"{commit}\n".encode())
            for index in (repository.own / "index", *repository.own.glob("sharedindex.*")):
                if index.is_file():
                    files.replace(folder, index.name, index.read_bytes())
    os.makedirs(root, mode=0o700, exist_ok=True)
    place = repository.common.absolute().joinpath(*own)
    Path(root, MARKER).write_text(f"gitdir: {place}\n", encoding="utf-8")
    return find_repository(root) is not None


def _free_name(registered: int) -> str:
    for number in count():
        name = f"work{number or ''}"
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=registered)  # fails for all but one of several at once
            return name
    raise AssertionError("numbers do not end")


def _forget_registration(common: Path, root: str) -> None:
    """Remove the registration of a worktree, and the folder of registrations if it is empty."""
    marker = os.path.join(root, MARKER)
    with RootedDirectory(common) as files:
        if files.entry((WORKTREES,)) is None:
            return
        for entry in files.entries((WORKTREES,)):
            own = (WORKTREES, entry.name)
            # Only what names this folder: the others are worktrees of the user.
            if entry.kind == "folder" and _note(files, own) == marker:
                files.remove_tree(own)
        files.prune((WORKTREES,))


def _note(files: RootedDirectory, own: Parts) -> str:
    try:
        return os.fsdecode(files.read((*own, "gitdir"), cap=_NOTE_BYTES)).strip()
    except ToolFailure:
        return ""
