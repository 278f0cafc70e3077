"""What a conversation remembers of a reply that is no answer yet, and what the model is told."""

from perdure.domain.turns.output_schema import NOT_LOOKED_AT, misfit_prompt
from perdure.domain.turns.settings import (
    CONTINUE_PROMPT,
    CUT_CALL_PROMPT,
    CUT_EMPTY_PROMPT,
    LOST_CALL_PROMPT,
)
from perdure.domain.turns.turn import Reply, TurnState, Why

# Between texts that a provider paused; one that was cut goes on in the middle of a word.
PAUSE_SEAM = "\n\n"


def note_unfinished(state: TurnState, reply: Reply, *, why: Why) -> str:
    """Remember a reply without calls that the next one follows; returns what to tell the model."""
    said = reply.has_text
    if said:
        state.deferred, state.deferred_cut = reply.text, reply.cut
    match why:
        case "cut_text" | "pause_turn":
            if said:
                state.answer = reply.text
            if why == "pause_turn":
                # The results that its own tools bring answer nothing of ours.
                state.cuts, state.seam = 0, PAUSE_SEAM
                return ""
            state.awaiting_results = state.awaiting_results and not said
            state.cuts, state.seam = state.cuts + 1, ""
            return CUT_EMPTY_PROMPT if state.answer is None else CONTINUE_PROMPT
        case "cut_call":
            state.cuts, state.answer = state.cuts + 1, None
            return CUT_CALL_PROMPT.format(name=reply.cut_call)
        case "lost_call":
            # Counted, so that the same reply is taken for what it is the second time.
            state.cuts, state.answer = state.cuts + 1, None
            return LOST_CALL_PROMPT
        case "misfit":
            state.awaiting_results, state.reasked = False, True
            state.cuts, state.answer = 0, None
            return misfit_prompt(reply.misfits or NOT_LOOKED_AT)
        case _:
            state.reasked = state.reasked and why != "input"
            state.awaiting_results = False
            state.cuts, state.answer = 0, None
            return ""


def note_calls(state: TurnState, reply: Reply) -> None:
    """Remember that a reply's calls are carried out; one beside them may have been cut out."""
    state.cut_call = reply.cut_call
    state.cuts = state.cuts + 1 if reply.cut_call else 0
    state.answer, state.seam = None, ""


def told_of_cut(state: TurnState) -> str:
    """What the model is told beside the results of the other calls, once; or nothing."""
    name, state.cut_call = state.cut_call, ""
    return CUT_CALL_PROMPT.format(name=name) if name else ""
