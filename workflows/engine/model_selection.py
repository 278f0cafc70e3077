"""Which models play a role at present, and how far down its chain a role has come."""

from perdure.workflows.engine.outlasting import LostWorkerRetries


class ModelSelection(LostWorkerRetries):
    """Adds chains of models to a loop; a subclass may seat others for a while."""

    def chain(self, role: str) -> tuple[str, ...]:
        """The models that play a role now, in order of preference."""
        return self.spec.models.chain(role)

    def seat(self, role: str) -> str:
        """Under which name the state keeps how far the role's present chain has failed over."""
        return role

    def model_of(self, role: str) -> str:
        """The model that a role calls next."""
        chain = self.chain(role)
        return chain[min(self.core.chain_index.get(self.seat(role), 0), len(chain) - 1)]

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """Chains that are no role's own, so that their models are known from the start."""
        return {}
