"""What a delegation asks people: its manager's questions, and for those who escalate."""

from temporalio import workflow

from perdure.domain.delegation.apply_decision import GOES_ON
from perdure.domain.delegation.decisions import ASKED_ABOVE, ENDING_CHOICES, asked_above
from perdure.domain.run.gates import CHOICES
from perdure.domain.turns.turn import Ending
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.human_input import expired_to_end

# Runs that were asked to escalate in their last iteration ended without asking.
ASKED_BEFORE_THE_END = "delegation-asked-before-the-end"


class Questions:
    """Asks people, and turns their answers into guidance or an ending."""

    def __init__(self, run: DelegationRun, engine: Engine) -> None:
        self.run = run
        self.people = engine.people
        self.limits = engine.limits

    async def of_manager(self) -> None:
        """Ask a person. `accept` takes the best result, `stop` ends, anything else is an answer.

        A manager below another manager ends with its question instead, and hands over its work.
        """
        state = self.run.state
        # Waiting for a person here would hold up the manager above, which awaits this run within
        # one of its iterations and cannot be asked meanwhile.
        if self.run.site.managed:
            detail = asked_above(state.question, state.choices)
            state.turnover.ending = Ending(outcome="blocked", reason=ASKED_ABOVE, detail=detail)
            return
        own = (*state.choices, *ENDING_CHOICES) if state.choices else CHOICES["escalation"]
        gate = await self.people.ask("escalation", state.question, choices=own, free_text=True)
        if gate is None or gate.answer is None:
            state.turnover.ending = self.run.ending()
        elif expired_to_end(gate):
            state.turnover.ending = Ending(outcome="unanswered", reason="gate_expired")
        elif gate.answer.choice in ENDING_CHOICES:
            state.turnover.ending = self.limits.after_escalation(gate)
        else:
            state.course = state.course.with_answer(state.question, gate.answer.words)

    async def escalate_to_person(self) -> Ending | None:
        """Ask the person who used `escalate`; returns why the run must end, if it must."""
        if self.run.state.control.escalation is None:
            return None
        gate = await self.people.ask(
            "escalation", self.run.state.control.escalation, free_text=True
        )
        # Cleared before the answer is looked at: an escalation that arrives during the wait is
        # another one.
        self.run.state.control.escalation = None
        return self.limits.after_escalation(gate)

    async def before_the_end(self, ending: Ending) -> Ending | None:
        """Ask who used `escalate` meanwhile; None if they let a run go on that may go on."""
        asks = self.run.state.control.escalation is not None and self.run.demanded_ending() is None
        if not asks or not workflow.patched(ASKED_BEFORE_THE_END):
            return ending
        answered = await self.escalate_to_person()
        if answered is None and not self.run.has_room:
            return ending
        # The sentence of an end that did not come would explain the one that does.
        self.run.state.verdict = ""
        if answered is None:
            self.run.inform(GOES_ON)
        return answered
