"""How a task wants its outputs to be scored: what differs between the kinds of loops."""

from typing import Protocol

from perdure.domain.evaluation.judge_cache import JudgeSettings


class Scoring(Protocol):
    """How a task wants its outputs to be scored."""

    @property
    def evaluator_share(self) -> float:
        """How much of the token budget the judges may use."""
        ...

    @property
    def pass_score(self) -> float | None:
        """The score from which on an output is good enough, None for no such score."""
        ...

    @property
    def judge_settings(self) -> JudgeSettings:
        """How the judges are to be asked."""
        ...

    @property
    def share_setting(self) -> str:
        """The setting that a person raises when the share is used up."""
        ...
