"""Warnings of a dry run about inputs: too large for a limit, or not visible to a judge."""

from collections.abc import Iterator, Mapping, Sequence

from perdure.domain.budget.accounting import worst_cost
from perdure.domain.foundation.tokens import TokenSizes, estimate
from perdure.domain.llm.attachments import Attachment, attachment_in
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.usage import Usage
from perdure.domain.sight import blind_roles, reads_task
from perdure.domain.specs import Spec
from perdure.domain.turns.prompts import input_address, input_text, task_text

CURE = "Raise the limit, or give less: fewer pages, smaller images, shorter texts."


def attachments_of(spec: Spec) -> tuple[Attachment, ...]:
    """The images and PDFs of a task."""
    given = (attachment_in(value) for value in spec.context.values())
    return tuple(one for one in given if one is not None)


def task_sizes(spec: Spec, texts: Mapping[str, str]) -> TokenSizes:
    """How many tokens of a prompt the goal and the inputs take; for images and PDFs the most.

    Args:
        spec: the run.
        texts: the texts of inputs that are stored as blobs, by address.
    """
    inputs: dict[str, str] = {}
    for name, value in spec.context.items():
        shown, address = attachment_in(value), input_address(value)
        if shown is not None:
            inputs[name] = shown.words
        else:
            inputs[name] = input_text(value) if address is None else texts.get(address, "")
    media = sum((one.tokens for one in attachments_of(spec)), TokenSizes())
    return estimate(task_text(spec.goal, inputs)) + media


def input_warnings(
    spec: Spec,
    chains: Mapping[str, Sequence[str]],
    cards: Mapping[str, ModelProfile],
    sizes: TokenSizes,
) -> tuple[str, ...]:
    """The warnings as sentences.

    Args:
        spec: the run.
        chains: the models of each role and stage.
        cards: what is known of their first models.
        sizes: the result of `task_sizes`.
    """
    reading = {role: chain for role, chain in chains.items() if chain and reads_task(spec, role)}
    known = {chain[0]: cards[chain[0]] for chain in reading.values() if chain[0] in cards}
    blind = blind_roles(attachments_of(spec), reading, cards)
    return (
        *(told for card in known.values() for told in _too_much(spec, card, sizes)),
        *(f"{role}: {why}." for role, why in blind.items()),
    )


def _too_much(spec: Spec, card: ModelProfile, sizes: TokenSizes) -> Iterator[str]:
    """The limits that a single call with the whole task would exceed by its prompt alone."""
    # A model that sees no attachments is sent words in their place.
    media = card.attachment_tokens(sizes.media) if card.attachments else 0
    tokens = sizes.text + media
    of_media = f", {media:,} of them for images and PDFs" if media else ""
    takes = f"The goal and its inputs take up to {tokens:,} tokens of a call of {card.name}"
    if spec.budget.tokens and tokens >= spec.budget.tokens:
        limit = f"the run may spend {spec.budget.tokens:,} (budget.tokens)"
        yield f"{takes}{of_media}; {limit}, so none fits. {CURE}"
    if tokens >= card.window:
        room = f"it has room for {card.window:,}"
        yield f"{takes}{of_media}; {room}, so none fits. Give less, or name another model."
    costs = worst_cost(card.price, Usage(input_tokens=tokens))
    if spec.budget.cost_usd and costs > spec.budget.cost_usd:
        limit = f"the run may spend {spec.budget.cost_usd} USD (budget.cost_usd)"
        yield f"{takes}{of_media}, up to {costs:.2f} USD; {limit}, so none fits. {CURE}"
