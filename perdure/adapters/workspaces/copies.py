"""Making working copies: a git worktree with the user's present files, or a plain copy."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from perdure.adapters.files.beneath import Beneath, Parts
from perdure.adapters.git.process import run_git
from perdure.adapters.git.shadow import Repository, find_repository
from perdure.domain.errors import InvalidInput

COPY_CAP = 200 * 1024**2
_NAMED = 3


def require_size(source: str, paths: Sequence[str], *, cap: int = COPY_CAP) -> None:
    """Refuse a folder that is too large for a plain copy, naming its largest files."""
    sizes: list[tuple[int, str]] = []
    with Beneath(source) as files:
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
    """Copy files and links as they are; folders are made as needed, special files left out."""
    with Beneath(source) as origin, Beneath(target) as copy:
        for path in paths:
            _copy_one(origin, copy, tuple(path.split("/")))


def _copy_one(origin: Beneath, copy: Beneath, parts: Parts) -> None:
    entry = origin.entry(parts)
    if entry is None or entry.kind not in {"file", "link"}:
        return
    with copy.folder(parts[:-1], create=True) as folder:
        if entry.kind == "link":
            os.symlink(origin.link_target(parts), parts[-1], dir_fd=folder)
            return
        mode = entry.status.st_mode & 0o777 | 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with origin.file(parts) as descriptor:
            target = os.open(parts[-1], flags, mode, dir_fd=folder)
            with (
                os.fdopen(os.dup(descriptor), "rb") as reader,
                os.fdopen(target, "wb") as writer,
            ):
                shutil.copyfileobj(reader, writer, 1 << 20)


async def add_worktree(repository: Repository, root: str) -> bool:
    """Register `root` as a worktree at the user's commit, without files; False where git can't.

    Nothing is checked out: the user's files are copied as they are, uncommitted ones included, so
    no filter and no hook of the repository runs.
    """
    added = await run_git(
        ["worktree", "add", "--detach", "--no-checkout", root, "HEAD"],
        cwd=repository.work,
        extra={"GIT_DIR": str(repository.own.absolute())},
        may_write=True,
    )
    made = find_repository(root) if added.code == 0 else None
    if made is None:
        return False
    for index in (repository.own / "index", *repository.own.glob("sharedindex.*")):
        if index.is_file() and not index.is_symlink():
            shutil.copyfile(index, made.own / index.name)
    return True


async def remove_worktree(source: str, root: str) -> None:
    """Take a worktree out of the user's repository; what is gone already is no error."""
    repository = find_repository(source)
    if repository is None:
        return
    environment = {"GIT_DIR": str(repository.own.absolute())}
    await run_git(
        ["worktree", "remove", "--force", root],
        cwd=repository.work,
        extra=environment,
        may_write=True,
    )
    _forget_registration(repository.common, root)


def _forget_registration(common: Path, root: str) -> None:
    """Drop git's note of a worktree whose folder went away before it was removed in order."""
    marker = os.path.join(root, ".git")
    for note in (common / "worktrees").glob("*/gitdir"):
        if note.is_file() and note.read_text(encoding="utf-8").strip() == marker:
            shutil.rmtree(note.parent, ignore_errors=True)
