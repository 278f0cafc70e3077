"""Another run's specification with changes, as a fork is told: no file of defaults has a say."""

from perdure.domain.specs import Spec
from perdure.submission.file_references import References
from perdure.submission.layers import Fields, Layer, flag_fields, merged, with_lists
from perdure.submission.types import Flags, Submission, Surroundings
from perdure.submission.unused_settings import idle_notes
from perdure.submission.validation import validated


def revise(
    spec: Spec,
    flags: Flags,
    *,
    surroundings: Surroundings,
    goal: str | None = None,
    label: str | None = None,
) -> Submission:
    """Apply flags, a goal and a label to a specification.

    Raises:
        InvalidInput: the changes make no valid specification; every problem is named.
    """
    whole: Fields = spec.model_dump(mode="json", by_alias=True)
    own = Layer(name="the run", fields=whole)
    said, problems = flag_fields(flags, spec.kind)
    told: Fields = {} if goal is None else {"goal": goal}
    if label is not None:
        told["metadata"] = {"label": label}
    references = References()
    flagged = Layer(name="the flags", fields=said, folder=surroundings.folder)
    layers = [own, references.resolved(flagged), Layer(name="the flags", fields=told)]
    fields = with_lists(merged(layers, spec.kind), flags)
    revised = validated(
        fields,
        layers,
        problems=[*problems, *references.problems],
        rubric_problems=surroundings.rubric_problems,
    )
    return Submission(spec=revised, blobs=references.blobs, notes=idle_notes(said))
