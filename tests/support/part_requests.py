"""The requests for all failing parts, one after another as an iteration asks for them."""

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import Evaluation
from perdure.domain.outputs.parts import failing_parts, part_evaluation
from perdure.domain.refine.prompts import Brief, PartRequest, part_request
from perdure.domain.refine.spec import OutputSettings


def part_requests(
    brief: Brief, rubric: Rubric, output: OutputSettings, *, evaluation: Evaluation
) -> tuple[PartRequest, ...]:
    """One for each failing part, in order; none without parts."""
    if output.parts == "whole":
        return ()
    return tuple(
        part_request(
            brief,
            rubric,
            output,
            part=failing.part,
            evaluation=part_evaluation(rubric, evaluation, failing.part),
        )
        for failing in failing_parts(rubric, evaluation)
    )
