"""What a model call may spend: the length of its prompt and reply, and its reservation."""

from dataclasses import dataclass
from typing import Protocol

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import MIN_OUTPUT_TOKENS, Budget, CallFit, LimitReached
from perdure.domain.budget.allowances import CLOSING_TOKENS, closing_room, reviewed_room
from perdure.domain.foundation.retry_policies import RECOVERY_ATTEMPTS
from perdure.domain.llm.call_settings import CallSettings, reply_limit
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.run.prompt_size import entries_media, entries_tokens
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.policies import ModelSelection
from perdure.workflows.engine.run import AnyRun

# A closing prompt that outgrew its estimate is shortened to this share each time.
SHORTER_EACH_TIME = 0.7


class CallBounds(Protocol):
    """What a kind of loop holds back from a call for the steps that must follow."""

    def left_for(self, ask: ModelCallSpec) -> Budget:
        """The budget minus what must be left after the call."""
        ...

    def longest_reply(
        self, ask: ModelCallSpec, card: ModelProfile, budget: Budget, *, prompt: int
    ) -> int | None:
        """The longest reply after which what follows can be paid for; None for any."""
        ...


@dataclass(frozen=True)
class Fitting:
    """Fits a call into the budget."""

    run: AnyRun
    selection: ModelSelection[AnyRun]
    bounds: CallBounds | None

    def estimated(self, tokens: int, *, role: str, model: str | None = None) -> int:
        """Our token count of a prompt, calibrated by what the model's provider reported before."""
        model = model or self.selection.model_of(role)
        return round(tokens * self.run.state.factors.get(model, 1.0))

    def fitted(
        self, ask: ModelCallSpec, card: ModelProfile, *, prompt: int, outgrown: int = 0
    ) -> tuple[CallFit | LimitReached, int | None]:
        """The output limit and reservation of a call; a closing call may get a shorter prompt."""
        # The worst case is reserved before the call, so that parallel calls cannot overspend
        # together.
        budget, wanted = self.run.state.budget, self._reply_limit(ask, card)
        longest = wanted
        if self.bounds is not None:
            budget = self.bounds.left_for(ask)
            bound = self.bounds.longest_reply(ask, card, budget, prompt=prompt)
            longest = wanted if bound is None else min(wanted, bound)
        fit = budgets.fit_call(
            budget,
            prompt_tokens=prompt,
            wanted=longest,
            price=card.price,
            wrap_up=ask.wrap_up,
            least=self.least_reply(ask),
        )
        enough = isinstance(fit, CallFit) and fit.max_tokens >= min(wanted, CLOSING_TOKENS)
        if not ask.closes or (enough and not outgrown):
            return fit, None
        room = closing_room(budget, price=card.price)
        if room is None or (isinstance(fit, CallFit) and room >= prompt):
            return fit, None
        room = min(room, card.window // 2)
        short = budgets.fit_call(
            budget, prompt_tokens=room, wanted=CLOSING_TOKENS, price=card.price, wrap_up=True
        )
        counted = room / self.run.state.factors.get(card.name, 1.0)
        return short, round(counted * SHORTER_EACH_TIME**outgrown)

    def least_reply(self, ask: ModelCallSpec) -> int:
        """The shortest output that a call is worth, which no setting of its role goes below."""
        return MIN_OUTPUT_TOKENS if ask.structured is None else ask.structured.least

    def closing_fits(self, ask: ModelCallSpec, *, model: str) -> bool:
        """Whether a closing call of a model can be paid for, however short."""
        card = self.run.state.cards.get(model)
        if card is None:
            return False
        return not isinstance(
            self.fitted(ask, card, prompt=self.prompt_tokens_of(ask, model))[0], LimitReached
        )

    def prompt_tokens_of(self, ask: ModelCallSpec, model: str) -> int:
        """The tokens of a prompt, by our own count and the model's calibration.

        Of images and PDFs it is the most that they take, which no calibration makes less.
        """
        # References carry their token counts, so a workflow can estimate a prompt without reading
        # any of it.
        own = (ask.head.tokens.text if ask.head else 0) + self.run.state.system_tokens
        told = own + entries_tokens(ask.entries) + ask.extra_tokens
        text = round(told * self.run.state.factors.get(model, 1.0))
        return text + self.run.state.cards[model].attachment_tokens(self._media(ask))

    def likely_of(self, ask: ModelCallSpec, model: str) -> int:
        """The tokens that a prompt probably takes of the window; bounds are for money only."""
        media = self.run.state.cards[model].attachment_tokens(self._media(ask))
        return self.prompt_tokens_of(ask, model) - media // 2

    def _media(self, ask: ModelCallSpec) -> int:
        """The most that images and PDFs take, in what was said and in what is appended."""
        said = ask.head.tokens.media if ask.head else 0
        return said + entries_media(ask.entries, task_media=self.run.state.task_media)

    def _reply_limit(self, ask: ModelCallSpec, card: ModelProfile) -> int:
        return reply_limit(
            card,
            wanted=ask.max_tokens or self.run.spec.models.calls(ask.role).max_output_tokens,
            seconds=self.run.site.timing.model_call,
            raised=ask.raised,
            most=ask.most_tokens,
        )

    def reply_tokens(self, role: str, usual: int) -> int:
        """The longest reply of a role that answers in a form: its setting, or what is usual."""
        return self.run.spec.models.calls(role).max_output_tokens or usual

    def reviewed_room(self, role: str) -> int | None:
        """The tokens, by our own count, of the text that a question to a role may show."""
        model = self.selection.model_of(role)
        card = self.run.state.cards.get(model)
        if card is None:
            return None
        room = reviewed_room(self.run.state.budget, price=card.price, window=card.window)
        return round(room / self.run.state.factors.get(model, 1.0))

    def provider_tries(self, ask: ModelCallSpec, *, fallback: bool) -> int:
        """How often a provider may fail a call before another model is asked, or none."""
        if ask.role == "recovery":
            return RECOVERY_ATTEMPTS
        timing = self.run.site.timing
        return min(timing.failover_attempts, timing.attempts) if fallback else timing.attempts

    def manner_of(self, ask: ModelCallSpec, model: str) -> CallSettings | None:
        """The call settings for a model; a fallback gets only those that it supports."""
        # Only the first model must support all: otherwise a chain of two providers could have
        # no settings at all.
        return self.run.spec.models.calls(ask.role).within(self.run.state.cards[model]).manner

    def left_out(self, role: str, model: str) -> str:
        """The settings of a role that a fallback cannot follow, in words."""
        unable = self.run.spec.models.calls(role).problems_with(self.run.state.cards[model])
        return "; ".join(f"{field}: {why}" for field, why in unable)
