"""How long the last question of a run may be, whose budget is spent but for the reserve."""

from perdure.domain.budget.envelope import MIN_OUTPUT_TOKENS, MOST, Budget, worst_cost
from perdure.domain.llm.requests import Price
from perdure.domain.llm.usage import Usage

# What a closing text is given where it can be had, and the least prompt that says anything.
CLOSING_TOKENS = 2_048
LEAST_CLOSING_PROMPT = 160


def closing_room(budget: Budget, *, price: Price | None) -> int | None:
    """The tokens that the prompt of a closing call may have, the reserve opened.

    A third of what is left is for its answer, as far as one needs it. None where not even the
    shortest prompt and a sentence fit.
    """
    answer, prompts = CLOSING_TOKENS, list[int]()
    tokens = budget.remaining("tokens", wrap_up=True)
    cost = budget.remaining("cost", wrap_up=True)
    output = budget.remaining("output_tokens", wrap_up=True)
    if output is not None:
        answer = min(answer, int(output))
    if tokens is not None:
        answer = min(answer, int(tokens) // 3)
    if cost is not None and price is not None and price.output_per_million:
        answer = min(answer, int(cost / 3 * 1_000_000 / price.output_per_million))
    if tokens is not None:
        prompts.append(int(tokens) - answer)
    if cost is not None and price is not None:
        each = worst_cost(price, Usage(input_tokens=1))
        left = cost - worst_cost(price, Usage(output_tokens=answer))
        prompts += [int(left / each)] if each else []
    calls = budget.remaining("model_calls", wrap_up=True)
    if answer < MIN_OUTPUT_TOKENS or (calls is not None and calls < 1):
        return None
    room = min(prompts, default=MOST)
    return room if room >= LEAST_CLOSING_PROMPT else None
