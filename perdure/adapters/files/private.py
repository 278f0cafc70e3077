"""Makes the home folder private to its user, because it holds goals, replies and journals."""

import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from perdure.domain.foundation.errors import StoreError

OTHERS = stat.S_IRWXG | stat.S_IRWXO
# What an installation keeps in its home; SQLite puts the others beside a database.
FOLDERS = ("blobs", "logs", "run", "work")
FILES = ("perdure.sqlite", "temporal.sqlite", "state.json")
BESIDE = ("", "-wal", "-shm", "-journal")


def make_private(home: Path) -> None:
    """Remove the access of group and others to a home folder and its content.

    A folder that is shared on purpose (the user's own home, or one with the sticky bit such as
    `/tmp`) stays as it is; what Perdure keeps in it is still made private.

    Raises:
        StoreError: a folder or file of another user is open to others; the cure has the command.
    """
    for path in (*_folder(home), *_kept(home)):
        _close(path)


def write_once(path: Path, text: str) -> str:
    """The content of a private file: `text`, unless it is there already. Raises `OSError`.

    It appears whole or not at all, so a process that is killed, or that reads at the same time,
    never finds a part of it.
    """
    if not path.exists():
        draft = path.with_name(f"{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
        try:
            draft.touch(mode=0o600, exist_ok=False)
            draft.write_text(text, encoding="ascii")
            # Of two processes the first creates the file, and the second uses what is in it.
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            except OSError:  # some network file systems have no hard links
                draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    return path.read_text(encoding="ascii")


def _folder(home: Path) -> Iterator[Path]:
    shared = home.is_dir() and home.stat().st_mode & stat.S_ISVTX
    if not shared and home.resolve() not in (Path.home().resolve(), Path("/")):
        yield home


def _kept(home: Path) -> Iterator[Path]:
    for name in FOLDERS:
        yield home / name
    for name in FILES:
        for end in BESIDE:
            yield home / f"{name}{end}"


def _close(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
        # A link is left alone, since `chmod` would follow it.
        if stat.S_ISLNK(mode) or not mode & OTHERS:
            return
        path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StoreError(
            f"{path} is open to other users of this machine, and cannot be made private:"
            f" {error.strerror}.",
            cure=f"Run as its owner: chmod go-rwx '{path}'",
        ) from error
