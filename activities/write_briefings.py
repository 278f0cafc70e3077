"""The activity `brief`: everything that workers are told, each text a blob of its own."""

from pydantic import JsonValue
from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.domain.delegation.messages import Assignment, BriefReport, BriefRequest
from perdure.domain.delegation.prompts import WorkerTask, worker_prompt
from perdure.domain.foundation.plain_text import quoted
from perdure.domain.ports import BlobStore
from perdure.domain.turns.prompts import input_address


class Brief:
    """Puts briefings together where the content is; equal ones have one address."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    @activity.defn
    @translated
    async def brief(self, step: BriefRequest) -> BriefReport:
        """Write one briefing for each assignment, in order."""
        texts = [await self._text(step, one) for one in step.assignments]
        return BriefReport(briefings=tuple([await self._blobs.put(t.encode()) for t in texts]))

    async def _text(self, step: BriefRequest, given: Assignment) -> str:
        skills = {name: await self._blobs.get_text(ref) for name, ref in given.skills.items()}
        written = {f"given {n}": text for n, text in enumerate(given.written, start=1)}
        told = worker_prompt(
            WorkerTask(
                envelope=given.envelope,
                goal=step.goal,
                said=step.said,
                acceptance=given.acceptance,
                skills={**skills, **written},
                pitfalls=given.pitfalls,
                inherited={name: await self._whole(v) for name, v in given.inherited.items()},
            )
        )
        if given.previous is None:
            return told
        before = await self._blobs.get_text(given.previous)
        return "\n\n".join((told, quoted("your result so far", before), given.repair))

    async def _whole(self, value: JsonValue) -> JsonValue:
        address = input_address(value)
        return value if address is None else await self._blobs.get_text(address)
