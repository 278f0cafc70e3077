"""Lays out the example of a ready-made task: its files, and repositories made from mailboxes."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from perdure.adapters.git.run_git import GitOutput, run_git
from perdure.domain.foundation.errors import NotAllowed

MAILBOX = ".mbox"
# Applied patches keep their authors; who applied them is the same everywhere.
_COMMITTER = {"GIT_COMMITTER_NAME": "Perdure", "GIT_COMMITTER_EMAIL": "perdure@example.org"}


async def lay_out(source: Path, target: Path) -> None:
    """Copy a folder; every `NAME.mbox` in it becomes a git repository `NAME` of its patches.

    The target is complete or absent, so what is there already is left as it is.

    Raises:
        NotAllowed: git is missing or cannot apply the patches.
    """
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".example-", dir=target.parent) as draft:
        made = Path(draft) / target.name
        await asyncio.to_thread(shutil.copytree, source, made)
        for mailbox in sorted(made.rglob(f"*{MAILBOX}")):
            await _repository(mailbox, mailbox.with_suffix(""))
            mailbox.unlink()
        if not target.exists():
            made.rename(target)


async def _repository(mailbox: Path, folder: Path) -> None:
    folder.mkdir()
    for arguments in (
        ["init", "--quiet", "--initial-branch", "main", "."],
        ["am", "--quiet", "--committer-date-is-author-date", str(mailbox)],
    ):
        said = await run_git(arguments, cwd=str(folder), extra=_COMMITTER, may_write=True)
        if said.code != 0:
            raise NotAllowed(f"git could not make the example {folder.name}: {_why(said)}.")


def _why(said: GitOutput) -> str:
    return said.stderr.strip().splitlines()[-1] if said.stderr.strip() else f"exit code {said.code}"
