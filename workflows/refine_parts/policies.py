"""How drafting differs from a plain conversation: its models and its turns."""

from collections.abc import Callable

from perdure.domain.budget.accounting import Budget
from perdure.domain.outputs.parts import draft_tokens
from perdure.domain.refine.spec import Strategy, strategy_of
from perdure.domain.refine.token_savings import is_share_used
from perdure.domain.turns.repeated_tool_calls import VolumeLevel
from perdure.domain.turns.turn import Ending, Limits
from perdure.workflows.engine.policies import InnerTurns, ModelSelection, last_call
from perdure.workflows.refine_parts.run import RefineRun, permitted_iterations


class StrategyModels(ModelSelection[RefineRun]):
    """The task's models; a strategy may bring its own for the executor."""

    @property
    def strategy(self) -> Strategy | None:
        """The approach of the iteration in progress, with the pattern `strategies`."""
        return strategy_of(self.run.spec.refine.strategies, self.run.state.iteration)

    def chain(self, role: str) -> tuple[str, ...]:
        """The models of a role; a strategy may bring its own to execute."""
        own = self.strategy.chain if role == "executor" and self.strategy else ()
        return (own[:1] if self.run.spec.models.pinned else own) or super().chain(role)

    def chain_key(self, role: str) -> str:
        """A strategy with its own models has a failover position of its own."""
        own = role == "executor" and self.strategy is not None and self.strategy.chain
        return f"{role}:{self.strategy.name}" if own and self.strategy else role

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """The models that strategies bring."""
        each = self.run.spec.refine.strategies
        return {f"executor:{one.name}": one.chain for one in each if one.chain}


class DraftTurns(InnerTurns):
    """Turns inside a draft; the refine loop counts and records the iterations.

    `left` says what they may spend.
    """

    def __init__(
        self, run: RefineRun, selection: StrategyModels, *, left: Callable[[], Budget]
    ) -> None:
        self.run = run
        self.selection = selection
        self.left = left

    def budget_of(self, whole: Budget) -> Budget:
        """The budget without what judging the draft takes."""
        return self.left()

    def on_critical_loop(self, level: VolumeLevel) -> Ending | None:
        """End the turns with a closing text; the decision table then asks a person."""
        self.run.state.tool_loop = "critical"
        return Ending(outcome="tool_misuse", reason="tool_loop", detail=level.tool)

    @property
    def asks_inside(self) -> bool:
        """Always false: the decision table asks after the iteration."""
        return False

    def offered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The tools on offer: narrowed by the strategy, none if the model cannot use tools.

        None either in a draft's only call: nobody could read their results.
        """
        if last_call(self.left()):
            return ()
        strategy = self.selection.strategy
        if strategy is None:
            return names
        if strategy.chain and not self.run.state.cards[self.selection.model_of("executor")].tools:
            return ()
        return names if strategy.tools is None else strategy.tools.offered(names)

    def bounded(self, limits: Limits) -> Limits:
        """End the tool turns of an iteration that has used its share of the tokens."""
        # Only tool turns have a share: the one call of a draft is limited by the whole budget.
        permitted = permitted_iterations(self.run.spec.refine)
        used = is_share_used(self.run.state.budget, self.run.state.iteration, permitted=permitted)
        return limits.model_copy(update={"share_used": used})

    def begins_again(self) -> bool | None:
        """Whether another call surely begins with this prompt: yes if more drafts must follow."""
        return self.run.spec.refine.min_iterations > 1 or None

    def output_cap(self) -> int | None:
        """The output limit: for a draft in parts, the sum of their limits."""
        whole = self.run.spec.refine.output.parts == "whole"
        return None if whole else draft_tokens(self.run.rubric)

    def continues_cuts(self) -> bool:
        """Whether to continue a cut reply. Not in parts: missing parts are asked for one by one."""
        return self.run.spec.refine.output.parts == "whole"
