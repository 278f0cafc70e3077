"""Applies a run's changes to the user's folder: all of them, or none if there is a conflict.

New contents are first written next to their places, then each is put in place by one rename. A
failure in between restores the old files. A crash leaves each file complete, old or new, and
repeating the command finishes the work.
"""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from perdure.adapters.files.paths import shown, why_protected
from perdure.adapters.files.rooted_files import Parts, RootedDirectory, stage, temporary_name
from perdure.adapters.workspaces.snapshots import EXECUTABLE, LINK, Mode, content
from perdure.domain.foundation.errors import NotAllowed, StoreAway, StoreError, ToolFailure

_NAMED = 20


@dataclass(frozen=True, slots=True)
class Change:
    """One path with its content in the base and its new content (None: no file)."""

    path: str
    before: tuple[Mode, bytes] | None
    after: tuple[Mode, bytes] | None

    @property
    def parts(self) -> Parts:
        return tuple(self.path.split("/"))


def apply_changes(target: str, changes: list[Change]) -> tuple[str, ...]:
    """Write the changes into `target` and return the paths that were changed.

    Raises:
        NotAllowed: a path is protected, or the user's file has neither the old nor the new content.
            All such paths are named, and nothing was written.
    """
    _require_permitted(changes)
    with RootedDirectory(target) as files, files.locked(()):
        wanted = _open_changes(files, changes, place=target)
        try:
            _write(files, wanted)
        except (OSError, ToolFailure, StoreAway) as error:
            raise StoreError(
                f"The changes could not be written to {target} ({error}).",
                cure="What was there has been put back. Check rights and free space, and repeat.",
            ) from error
        for change in wanted:
            if change.after is None:
                files.prune(change.parts[:-1])
    # All, also those that were made before, so that a repeat tells the same.
    return tuple(change.path for change in changes)


def _write(files: RootedDirectory, wanted: list[Change]) -> None:
    """First remove files that are in the way of a folder, or the reverse; then stage the rest."""
    early = [change for change in wanted if change.after is None and _makes_room(change, wanted)]
    later = [change for change in wanted if change not in early]
    with _undone_on_failure() as undo:
        for change in early:
            _place(files, change, None, undo)
            files.prune(change.parts[:-1])
        # All contents are written before the first rename, so that a full disk changes nothing.
        staged = [(change, _staged(files, change, undo)) for change in later]
        for change, name in staged:
            _place(files, change, name, undo)
        undo.keep()


def _makes_room(change: Change, wanted: list[Change]) -> bool:
    return any(
        other.path.startswith(f"{change.path}/") or change.path.startswith(f"{other.path}/")
        for other in wanted
        if other.after is not None
    )


def _require_permitted(changes: list[Change]) -> None:
    refused = [
        f"{shown(change.path)} ({reason})" for change in changes if (reason := _reason(change))
    ]
    if refused:
        raise NotAllowed(
            f"The result changes files that are never taken over: {_listed(refused)}.",
            cure="Nothing was written. Look at the patch and make these changes yourself.",
        )


def _reason(change: Change) -> str | None:
    if change.after is not None and change.after[0] == LINK:
        goal = os.fsdecode(change.after[1])
        names = [name for name in goal.split("/") if name not in {"", "."}]
        upwards = next((place for place, name in enumerate(names) if name != ".."), len(names))
        if goal.startswith("/") or upwards >= len(change.parts):
            return "a link that leads outside"
        # The name before it may be another link, and then `..` leads to wherever that leads.
        if ".." in names[upwards:]:
            return "a link with `..` after a name, which may lead outside"
    return why_protected(change.parts, use="write")


def _open_changes(files: RootedDirectory, changes: list[Change], *, place: str) -> list[Change]:
    """The changes that are not made yet; raises if the user's files conflict with one."""
    conflicts: list[str] = []
    leaving = {change.path for change in changes if change.after is None}
    wanted: list[Change] = []
    for change in changes:
        try:
            now = content(files, change.parts)
            in_the_way = now is None and _is_blocked(files, change.parts, leaving)
        except ToolFailure:
            now, in_the_way = None, True
        # The new content is no conflict, so that a repeat can finish what a crash left.
        if in_the_way or now not in (change.before, change.after):
            conflicts.append(shown(change.path))
        elif now != change.after:
            wanted.append(change)
    if conflicts:
        raise NotAllowed(
            f"Files in {place} are not as they were when the run began: {_listed(conflicts)}.",
            cure="Nothing was written. Go to the folder that the run worked on, or name it with "
            "--to; undo your changes to these files, or take the patch and merge it by hand.",
        )
    return wanted


def _is_blocked(files: RootedDirectory, parts: Parts, leaving: set[str]) -> bool:
    """Whether something that stays is at the path, or where the path needs a folder."""
    entry = files.entry(parts)
    if entry is not None and entry.kind == "folder":
        return any(
            inner.kind != "folder" and "/".join(path) not in leaving
            for path, inner in files.walk(parts)
        )
    if entry is not None:
        return True
    return any(
        (above := files.entry(parts[:depth])) is not None
        and above.kind != "folder"
        and "/".join(parts[:depth]) not in leaving
        for depth in range(1, len(parts))
    )


@dataclass(slots=True)
class _Undo:
    """The steps that undo everything, run newest first, and those that clean up in the end."""

    steps: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    clearing: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    kept: bool = False

    def keep(self) -> None:
        self.kept = True


@contextmanager
def _undone_on_failure() -> Generator[_Undo]:
    undo = _Undo()
    try:
        yield undo
    finally:
        for step in [*([] if undo.kept else reversed(undo.steps)), *undo.clearing]:
            # One step that fails must not keep the others from running.
            with suppress(OSError, ToolFailure, StoreAway):
                step()


def _staged(files: RootedDirectory, change: Change, undo: _Undo) -> str | None:
    """Write the new content next to its place and return the temporary name."""
    if change.after is None:
        return None
    mode, data = change.after
    folder = change.parts[:-1]
    for depth in range(1, len(folder) + 1):
        if files.entry(folder[:depth]) is None:
            undo.steps.append(lambda made=folder[:depth]: files.prune(made))
    with files.folder(folder, create=True) as parent:
        if mode == LINK:
            name = temporary_name()
            os.symlink(os.fsdecode(data), name, dir_fd=parent)
        else:
            old = _rights(files, change.parts)
            name = stage(parent, data, mode=_wanted(mode, old), masked=old is None)
    path = (*folder, name)
    undo.clearing.append(lambda: files.remove(path))
    undo.steps.append(lambda: files.remove(path))
    return name


def _rights(files: RootedDirectory, parts: Parts) -> int | None:
    """The permissions of the user's file, which may be private; None for a new one."""
    entry = files.entry(parts)
    return entry.status.st_mode & 0o777 if entry is not None and entry.kind == "file" else None


def _wanted(mode: Mode, old: int | None) -> int:
    """Of an existing file only the right to run it changes, for those who may read it."""
    if old is None:
        return 0o777 if mode == EXECUTABLE else 0o666
    if mode != EXECUTABLE:
        return old & ~0o111
    return old if old & 0o111 else old | (old & 0o444) >> 2


def _place(files: RootedDirectory, change: Change, staged: str | None, undo: _Undo) -> None:
    """Put one change in place; the old file stays in the top folder until all are done."""
    name, folder, backup = change.parts[-1], change.parts[:-1], temporary_name()
    with files.folder(folder) as parent, files.folder(()) as top:
        if change.before is None:
            undo.steps.append(lambda: files.remove(change.parts))
        else:
            _keep(parent, name, top, backup, in_place=staged is not None)
            undo.clearing.append(lambda: files.remove((backup,)))
            undo.steps.append(lambda: _put_back(files, backup, change.parts))
        if staged is not None:
            os.rename(staged, name, src_dir_fd=parent, dst_dir_fd=parent)


def _keep(parent: int, name: str, top: int, backup: str, *, in_place: bool) -> None:
    """Keep the old file under another name; by a hard link if a rename will replace it at once."""
    if in_place:
        with suppress(OSError):  # some file systems have no hard links
            os.link(name, backup, src_dir_fd=parent, dst_dir_fd=top, follow_symlinks=False)
            return
    os.rename(name, backup, src_dir_fd=parent, dst_dir_fd=top)


def _put_back(files: RootedDirectory, backup: str, parts: Parts) -> None:
    with files.folder(parts[:-1], create=True) as parent, files.folder(()) as top:
        os.rename(backup, parts[-1], src_dir_fd=top, dst_dir_fd=parent)


def _listed(items: list[str]) -> str:
    more = len(items) - _NAMED
    return ", ".join(items[:_NAMED]) + (f" and {more} more" if more > 0 else "")
