"""The activity `judge`: ask a model to score an output, and read its verdict."""

from temporalio import activity

from activities.call_model import CallModel
from activities.translate import translated
from perdure.domain.evaluation_reply import Asked, BadReply, judge_schema, read_judgement
from perdure.domain.ports import BlobStore
from perdure.domain.refine.prompts import JUDGE_SYSTEM
from perdure.domain.steps import JudgeReport, JudgeRequest


class Judge:
    """Judges in a context of its own; a reply that is no judgement is no score either."""

    def __init__(self, *, calls: CallModel, blobs: BlobStore) -> None:
        self._calls = calls
        self._blobs = blobs

    @activity.defn
    @translated
    async def judge(self, step: JudgeRequest) -> JudgeReport:
        """Make the call with structured output, and validate what comes back."""
        call = await self._calls.turn(
            step.call, json_schema=judge_schema(step.dimensions), system=JUDGE_SYSTEM
        )
        if call.status != "replied":
            return JudgeReport(call=call)
        text = "" if call.text is None else await self._blobs.get_text(call.text.hash)
        asked = Asked(
            dimensions=step.dimensions,
            open_findings=step.open_findings,
            next_finding=step.next_finding,
            pass_score=step.pass_score,
        )
        read = read_judgement(text, asked)
        if isinstance(read, BadReply):
            return JudgeReport(call=call, problems=read.problems)
        return JudgeReport(call=call, scores=read.scores, resolved=read.resolved)
