"""Skills that runs write: proposals until the run was accepted and a person approved them.

A proposal has a name of its own, so that it replaces no skill that other runs are given.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.memory.entries import Origin, Skill
from perdure.domain.memory.rule_lessons import entry_id
from perdure.domain.memory.skills import purpose_of, slug

OF_A_RUN = "@"


def proposal(name: str, markdown: str, *, run: str, category: str | None, now: datetime) -> Skill:
    """A skill as a run proposes it; writing it again makes a version of the proposal."""
    return Skill(
        kind="skill",
        id=entry_id("proposal", run, name),
        name=proposal_name(name, run),
        purpose=purpose_of(markdown),
        category=category,
        text=markdown.strip(),
        source=f"run {run}",
        approved=False,
        proposed_by=run,
        created=now,
    )


def approved(
    proposed: Skill, *, outcome: str | None, by: str, now: datetime, name: str | None = None
) -> Skill:
    """The skill that a person, or the operator's settings, makes of a proposal.

    Raises:
        NotAllowed: it is no proposal, or the run that made it was not accepted.
        InvalidInput: the name has neither letters nor digits.
    """
    if proposed.approved is not False:
        raise NotAllowed(f"The skill {proposed.name} waits for no approval.")
    if outcome != "accepted":
        ended = f"ended {outcome}" if outcome else "has not ended"
        raise NotAllowed(
            f"The skill {proposed.name} comes from a run that {ended}; only what accepted runs "
            "wrote enters other runs.",
            cure=f"Read it (perdure skills show {proposed.name}) and add it as your own, or "
            f"forget it: perdure skills forget {proposed.name}",
        )
    called = slug(name or plain_name(proposed))
    if not called:
        raise InvalidInput(f"The name {name!r} has neither letters nor digits.")
    return proposed.model_copy(
        update={
            "id": f"skill-{called}",
            "name": called,
            "approved": True,
            "version": 1,
            "earlier": (),
            "source": f"run {proposed.proposed_by}, approved by {by}",
            "origins": (Origin(run=proposed.proposed_by, outcome="accepted"),),
            "created": now,
        }
    )


def proposal_name(name: str, run: str) -> str:
    """The name under which a run proposes a skill."""
    return f"{name}{OF_A_RUN}{run}"


def plain_name(skill: Skill) -> str:
    """A skill's name without the run that proposes it."""
    return skill.name.rpartition(OF_A_RUN)[0] or skill.name


def proposals(skills: Iterable[Skill], *, run: str | None = None) -> tuple[Skill, ...]:
    """The skills that wait for approval, of one run or of all."""
    return tuple(
        skill
        for skill in skills
        if skill.approved is False and (run is None or skill.proposed_by == run)
    )


def one_proposal(name: str, waiting: Sequence[Skill]) -> Skill:
    """The proposal that a name means: the whole one, or that of the skill if only one waits.

    Raises:
        NotFound: none is called so.
        InvalidInput: several runs propose a skill of that name.
    """
    wanted = name.strip().casefold()
    exact = [skill for skill in waiting if skill.name.casefold() == wanted]
    found = exact or [skill for skill in waiting if plain_name(skill).casefold() == wanted]
    if not found:
        known = ", ".join(skill.name for skill in waiting[:8]) or "none waits for approval"
        raise NotFound(f"There is no proposed skill {name!r}; there are: {known}.")
    if len(found) > 1:
        names = ", ".join(skill.name for skill in found)
        raise InvalidInput(
            f"Several runs propose a skill {name!r}: {names}.", cure="Give the whole name."
        )
    return found[0]
