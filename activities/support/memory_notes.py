"""What a run noted for later runs: it enters memory when the run ends, with how it ended."""

from perdure.domain.foundation.errors import NotFound
from perdure.domain.memory.entries import Sort
from perdure.domain.memory.rule_lessons import learning
from perdure.domain.memory.run_history import EndedRun
from perdure.domain.memory.store import MemoryStore
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.projects.records import LEARNING

CONFIDENCE = 0.5
SORTS: dict[str, Sort] = {
    "fact": "fact",
    "heuristic": "heuristic",
    "anti_pattern": "anti_pattern",
}


class NoteKeeper:
    """Turns the notes of an ended run into learnings that name it as their origin."""

    def __init__(self, *, artifacts: ArtifactStore, blobs: BlobStore, memory: MemoryStore) -> None:
        self._artifacts = artifacts
        self._blobs = blobs
        self._memory = memory

    async def keep(self, run: EndedRun) -> None:
        """Put every note into memory; a repeat finds what it wrote."""
        for note in await self._artifacts.artifacts_of_run(run.id):
            if note.kind != LEARNING:
                continue
            try:
                text = await self._blobs.get_text(note.ref)
            except NotFound:
                continue  # a note is a help: its loss does not hold up the end of a run
            sort = SORTS.get(note.name, "fact")
            await self._memory.put(
                learning(run, f"note:{note.id}", sort=sort, text=text, confidence=CONFIDENCE)
            )
