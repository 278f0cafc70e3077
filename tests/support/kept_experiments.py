"""An experiment that has ended, as rows: the loop is better, but not on the last input."""

from datetime import UTC, datetime

from installation import Installation

from perdure.domain.experiments.plan import Arm, Entry, Plan, Scoring
from perdure.domain.experiments.store import StoredExperiment
from perdure.domain.experiments.trials import Step, Trial, Try

AT = datetime(2026, 1, 2, tzinfo=UTC)
ID = "exp-page"
INPUTS = 6
OWN = {"loop": (0.5, 1.0), "single": (0.5,)}


async def ended_experiment(site: Installation, *, name: str = "bottles", entry: str = "") -> str:
    """Keep it, and return its id; `entry` is a word in the names of its inputs."""
    plan = Plan(
        name=name, arms=tuple(Arm(name=arm, task={}) for arm in OWN), scoring=Scoring(by="check")
    )
    entries = [Entry(name=f"input {entry}{number}") for number in range(INPUTS)]
    made = StoredExperiment(id=ID, plan=plan, inputs=INPUTS, digest="d", created_at=AT)
    store = site.parts.stores.experiments()
    await store.create(made, entries)
    await store.note(ID, "ended", reason="completed", at=AT)
    for at in range(INPUTS):
        held = {"loop": 0.9 if at < INPUTS - 1 else 0.1, "single": 0.4}
        for number, (arm, scores) in enumerate(OWN.items(), start=at * len(OWN)):
            one = Try(
                run=f"{ID}-{arm}-{at}",
                outcome="accepted",
                score=max(scores),
                held_out=held[arm],
                tokens=100,
                model_calls=len(scores),
                steps=tuple(Step(score=score, tokens=100 // len(scores)) for score in scores),
            )
            trial = Trial(number=number, arm=arm, entry=at, tries=(one,), ended=True)
            await store.put_trial(ID, trial)
    return ID
