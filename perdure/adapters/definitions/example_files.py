"""Writes the example of a built-in task: its files, and git repositories made from patches."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from perdure.adapters.git.run_git import run_git
from perdure.domain.foundation.errors import NotAllowed

MAILBOX = ".mbox"
# Applied patches keep their authors; a fixed committer makes the commits the same everywhere.
_COMMITTER = {"GIT_COMMITTER_NAME": "Perdure", "GIT_COMMITTER_EMAIL": "perdure@example.org"}


async def lay_out(source: Path, target: Path) -> None:
    """Copy a folder; every `NAME.mbox` in it becomes a git repository `NAME` with its patches.

    The target is never incomplete, so an existing one is left as it is.

    Raises:
        NotAllowed: git is missing or cannot apply the patches.
    """
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target: a rename works within one file system only.
    with tempfile.TemporaryDirectory(prefix=".example-", dir=target.parent) as draft:
        made = Path(draft) / target.name
        await asyncio.to_thread(shutil.copytree, source, made)
        for mailbox in sorted(made.rglob(f"*{MAILBOX}")):
            await _make_repository(mailbox, mailbox.with_suffix(""))
            mailbox.unlink()
        # Another process may have laid it out meanwhile.
        if not target.exists():
            made.rename(target)


async def _make_repository(mailbox: Path, folder: Path) -> None:
    folder.mkdir()
    for arguments in (
        ["init", "--quiet", "--initial-branch", "main", "."],
        ["am", "--quiet", "--committer-date-is-author-date", str(mailbox)],
    ):
        said = await run_git(arguments, cwd=str(folder), extra=_COMMITTER, may_write=True)
        if said.code != 0:
            words = said.stderr.strip()
            why = words.splitlines()[-1] if words else f"exit code {said.code}"
            raise NotAllowed(f"git could not make the example {folder.name}: {why}.")
