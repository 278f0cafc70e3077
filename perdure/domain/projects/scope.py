"""What a run may see and change of what runs share: the same for artifacts and todos."""

from dataclasses import dataclass

from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.projects.records import Membership, ScopeKind


@dataclass(frozen=True, slots=True)
class Reach:
    """A run with the session and project it belongs to; empty ids belong to nothing."""

    run: str
    session: str = ""
    project: str = ""

    @property
    def belongings(self) -> tuple[Membership, ...]:
        """Every scope whose things are within reach."""
        owners: tuple[tuple[ScopeKind, str], ...] = (
            ("run", self.run),
            ("session", self.session),
            ("project", self.project),
        )
        return tuple(Membership(scope=scope, owner=owner) for scope, owner in owners if owner)

    def belonging(self, scope: ScopeKind | None = None) -> Membership:
        """Where something new lands: in the scope asked for, else in the widest there is.

        Raises:
            ToolFailure: the run has no session or project of that kind.
        """
        within = {belonging.scope: belonging for belonging in self.belongings}
        if scope is None:
            return self.belongings[-1]
        if scope not in within:
            raise ToolFailure(
                f"This run belongs to no {scope}. Use one of: {', '.join(within)}.",
                reason="refused",
            )
        return within[scope]

    def holds(self, belonging: Membership) -> bool:
        """Whether a thing of that scope is within reach."""
        return belonging in self.belongings
