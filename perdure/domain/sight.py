"""Who in a run reads the task, and whose first model cannot be shown its images and PDFs."""

from collections.abc import Mapping, Sequence

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.shown_attachments import why_not_shown
from perdure.domain.roles.spec import RolesSpec, wants_goal_judge
from perdure.domain.run.spec import ROLES, CommonSpec
from perdure.domain.specs import rubric_of


def blind_roles(
    attachments: Sequence[Attachment],
    chains: Mapping[str, Sequence[str]],
    cards: Mapping[str, ModelProfile],
) -> dict[str, str]:
    """What each role does not see whose first model is shown words in place of something.

    Args:
        attachments: the images and PDFs of the task.
        chains: the models of each role, in order of preference.
        cards: what is known of the models; of one without a card nobody here knows.
    """
    found = {
        role: [one for one in attachments if one.kind not in cards[chain[0]].attachments]
        for role, chain in chains.items()
        if chain and chain[0] in cards
    }
    return {
        role: f"{why_not_shown(unseen[0], cards[chains[role][0]])}: of "
        f"{', '.join(one.words for one in unseen)} it knows these words alone"
        for role, unseen in found.items()
        if unseen
    }


def reads_task(spec: CommonSpec, role: str) -> bool:
    """Whether a role of a run is given the task; roles of no fixed name are there for that."""
    if role not in ROLES:
        return True
    match role:
        case "executor":
            return not isinstance(spec, DelegationSpec)
        case "evaluator":
            return _judges(spec)
        case "worker":
            return isinstance(spec, DelegationSpec)
        case _:
            # A manager and its critic read names and reports, whatever their models can see.
            return False


def _judges(spec: CommonSpec) -> bool:
    if isinstance(spec, RolesSpec):
        snapshot = spec.roles.snapshot
        return snapshot is not None and wants_goal_judge(snapshot.definition.termination_condition)
    rubric = rubric_of(spec)
    return rubric is not None and None in rubric.judges
