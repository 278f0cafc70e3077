"""Which models play a role at present, and how far down its chain a role has come."""

from typing import Generic, TypeVar

from perdure.workflows.engine.run import AnyRun

RunT = TypeVar("RunT", bound=AnyRun, covariant=True)


class ModelSelection(Generic[RunT]):
    """The chains of models of a run; some kinds of loops seat others for a while."""

    def __init__(self, run: RunT) -> None:
        self.run = run

    def chain(self, role: str) -> tuple[str, ...]:
        """The models that play a role now, in order of preference."""
        return self.run.spec.models.chain(role)

    def seat(self, role: str) -> str:
        """Under which name the state keeps how far the role's present chain has failed over."""
        return role

    def model_of(self, role: str) -> str:
        """The model that a role calls next."""
        chain = self.chain(role)
        return chain[min(self.run.state.chain_index.get(self.seat(role), 0), len(chain) - 1)]

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """Chains that are no role's own, so that their models are known from the start."""
        return {}
