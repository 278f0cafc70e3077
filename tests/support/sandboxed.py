"""Workflows for the sandbox: one that hands on values in every way, and one that breaks out."""

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn
async def echoed(value: str) -> str:
    """The value."""
    return value


@workflow.defn
class Below:
    """Waits for a word."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.signal
    def told(self, word: str) -> None:
        """Take the word."""
        self.word = word

    @workflow.run
    async def run(self, value: str) -> str:
        """The value and the word."""
        await workflow.wait_condition(lambda: bool(self.word))
        return value + self.word


@workflow.defn
class Above:
    """Hands values to an activity, a child and a signal."""

    @workflow.run
    async def run(self, value: str) -> str:
        """What they make of them."""
        value = await workflow.execute_activity(
            echoed, value, start_to_close_timeout=timedelta(seconds=60)
        )
        below = f"{workflow.info().workflow_id}.below"
        child = await workflow.start_child_workflow(Below.run, value, id=below)
        await workflow.get_external_workflow_handle(below).signal("told", "!")
        return await child


@workflow.defn
class Outbreak:
    """Reads a file."""

    @workflow.run
    async def run(self) -> str:
        """Whether it could."""
        try:
            with open("/etc/hostname", encoding="utf-8") as file:
                return file.read()
        except workflow.NondeterminismError as refused:
            return type(refused).__name__
