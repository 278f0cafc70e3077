"""Which models play a role now, and which one of its chain comes next."""

from typing import Generic, TypeVar

from perdure.workflows.engine.run import AnyRun

RunT = TypeVar("RunT", bound=AnyRun, covariant=True)


class ModelSelection(Generic[RunT]):
    """The model chains of a run; some kinds of loops replace them for a stage or strategy."""

    def __init__(self, run: RunT) -> None:
        self.run = run

    def chain(self, role: str) -> tuple[str, ...]:
        """The models that play a role now, in order of preference."""
        return self.run.spec.models.chain(role)

    def seat(self, role: str) -> str:
        """The key under which the state keeps the failover position of the role's chain."""
        return role

    def model_of(self, role: str) -> str:
        """The model that a role calls next."""
        # The position may lie beyond a chain that `amend` or a strategy has made shorter.
        chain = self.chain(role)
        return chain[min(self.run.state.chain_index.get(self.seat(role), 0), len(chain) - 1)]

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """Chains beside those of the roles, so that the run knows their models from the start."""
        return {}
