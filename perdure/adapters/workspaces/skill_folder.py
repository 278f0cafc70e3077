"""Skills as Markdown files below a working folder."""

import asyncio

from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.domain.delegation.skills import FOLDER


class WorkingSkills:
    """`SkillFolder` over a folder `skills`; a link in its place is refused, not followed."""

    async def write(self, root: str, *, name: str, text: str) -> None:
        await asyncio.to_thread(_write, root, name, text)


def _write(root: str, name: str, text: str) -> None:
    with RootedDirectory(root) as files, files.folder((FOLDER,), create=True) as folder:
        files.replace(folder, f"{name}.md", f"{text.strip()}\n".encode())
