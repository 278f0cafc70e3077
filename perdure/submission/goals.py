"""Turns a bare goal into a task, and removes judged dimensions if no model may judge them."""

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.refine.checks_from_goal import derive, judged_goal
from perdure.domain.run.spec import ModelsSpec
from perdure.domain.specs import Spec
from perdure.submission.layers import Fields
from perdure.submission.types import Flags, NobodyJudges, Surroundings

NEVER_JUDGES = (
    "The model {model} never judges: {dropped} left out, and the checks alone decide. "
    "Name another with models.evaluator to have it judged."
)


def goal_fields(goal: str, flags: Flags) -> Fields:
    """The fields of a task with only a goal: `agent`, or `refine` if the flags ask to iterate."""
    wants_refine = flags.iterate is not None or flags.quality is not None
    kind = flags.kind or ("refine" if wants_refine else "agent")
    fields: Fields = {"kind": kind, "goal": goal}
    if kind == "refine":
        rubric = [*derive(goal), judged_goal()]
        fields["rubric"] = [
            dimension.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            for dimension in rubric
        ]
    return fields


def without_vain_judges(spec: Spec, surroundings: Surroundings) -> tuple[Spec, tuple[str, ...]]:
    """Remove what the evaluator would judge if its model never judges, with a note.

    What programs, people and the rubric's own judges evaluate stays.

    Raises:
        NobodyJudges: no other dimension is left.
    """
    if spec.kind != "refine":
        return spec, ()
    vain = [item for item in spec.rubric.judged if item.judge is None]
    if not vain:
        return spec, ()
    model = evaluator_of(spec.models, surroundings)
    if surroundings.judges(model):
        return spec, ()
    dropped = ", ".join(item.name for item in vain)
    others = tuple(item for item in spec.rubric.dimensions if item not in vain)
    if not others:
        raise NobodyJudges(
            f"Nothing can be evaluated: {dropped} needs a judge, and the model {model} never "
            "judges.",
            cure="State what can be checked (a length, words to mention, JSON), or name a judge "
            "with --set models.evaluator=MODEL.",
        )
    kept = Rubric(others)
    are = "are" if len(vain) > 1 else "is"
    note = NEVER_JUDGES.format(model=model, dropped=f"{dropped} {are}")
    return spec.model_copy(update={"rubric": kept}), (note,)


def evaluator_of(models: ModelsSpec, surroundings: Surroundings) -> str:
    chain = models.chain("evaluator")
    return chain[0] if chain else surroundings.default_model
