"""Whether a grant lets a tool run; every source of tools asks before it runs one."""

from perdure.domain.agent.levels import changes_files, offers
from perdure.domain.tools import Grant, ToolFact


def refusal(fact: ToolFact, grant: Grant) -> str | None:
    """Why this grant forbids the tool, for the model; None when it may run."""
    if fact.name not in grant.allowed:
        return (
            f"{fact.name} is not granted to this run. "
            f"On offer: {', '.join(grant.allowed) or 'none'}."
        )
    if fact.on_request and not grant.orchestrates:
        return f"{fact.name} is for agent runs that no other run started; do the work yourself."
    if not offers(grant.level, fact):
        return f"{fact.name} ({fact.access}) is beyond the access level {grant.level}."
    if changes_files(fact) and not grant.writable:
        return f"{fact.name} would change files, and this run's workspace is read-only."
    if fact.access == "person":
        return f"{fact.name} is answered by a person through a gate; no host can run it."
    return None
