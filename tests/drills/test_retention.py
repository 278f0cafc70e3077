"""An order whose history the server has dropped is an order that was carried out.

The history goes by `DeleteWorkflowExecution`, as it does at the end of its retention.
"""

import asyncio

import pytest
from chosen import Chosen
from ground import Ground
from provider import MODEL
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from waiting import eventually

from perdure.domain.foundation.errors import NoReadyWorker, NotAllowed
from perdure.domain.specs import RUN_SPEC, Spec


def _order(goal: str = "look", **more: object) -> Spec:
    given = {"kind": "agent", "goal": goal, "models": {"executor": MODEL}, "learn": False}
    return RUN_SPEC.validate_python({**given, **more})


async def _forget(drill: Ground, run: str) -> None:
    """Drop the history of a run from the server, and wait until it is gone."""
    client = drill.site.client
    await client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=client.namespace, workflow_execution=WorkflowExecution(workflow_id=run)
        )
    )

    async def gone() -> bool:
        return await drill.site.gateway._parts.server.look(run) is None

    await eventually(gone)


@pytest.mark.long
@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(Chosen(run_id="order-17"), marks=pytest.mark.slow, id="id"),
        pytest.param(Chosen(idempotency_key="order-17"), id="key"),
    ],
)
async def test_an_order_is_carried_out_once_also_after_its_history_is_gone(
    drill: Ground, chosen: Chosen
) -> None:
    gateway = drill.site.gateway
    async with drill.site.worker():
        run = await chosen.start(gateway, _order())
        before = await gateway.result(run)
        await _forget(drill, run)
        again = await asyncio.gather(*(chosen.start(gateway, _order()) for _ in range(3)))
        assert set(again) == {run}
        assert await gateway.result(run) == before
        assert (await gateway.status(run)).lifecycle == "completed"
        with pytest.raises(NotAllowed, match="another specification"):
            await chosen.start(gateway, _order("something else"))
    assert len(drill.provider.lines()) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "chosen", [Chosen(run_id="order-20"), Chosen(idempotency_key="order-20")], ids=["id", "key"]
)
async def test_the_order_of_a_run_that_was_deleted_is_refused_before_it_starts(
    drill: Ground, chosen: Chosen
) -> None:
    gateway = drill.site.gateway
    server = gateway._parts.server

    async def ended() -> bool:
        look = await server.look(run)
        return look is None or not look.open

    async def gone() -> bool:
        return await server.look(run) is None

    async with drill.site.worker():
        run = await chosen.start(gateway, _order())
        await gateway.result(run)
        await eventually(ended)
        await gateway.delete(run)
        # The server deletes a moment later than it says; the answer is the same.
        for _ in range(2):
            with pytest.raises(NotAllowed, match="was used: that run is gone"):
                await chosen.start(gateway, _order())
            assert await drill.site.parts.stores.records.run(run) is None
            await eventually(gone)
    assert len(drill.provider.lines()) == 1


@pytest.mark.slow
async def test_a_terminated_order_that_paid_is_not_started_again(drill: Ground) -> None:
    gateway = drill.site.gateway
    async with drill.site.worker():
        run = await gateway.start(_order(), run_id="order-18")
        await gateway.result(run)
    row = await drill.site.parts.stores.records.run(run)
    assert row is not None
    # The row of a run that was ended from outside never learned of its end.
    torn = {"lifecycle": "running", "outcome": None, "ended_at": None, "result": None}
    await drill.site.parts.stores.records.put_run(row.model_copy(update=torn))
    await _forget(drill, run)
    assert await gateway.start(_order(), run_id="order-18") == run
    assert await gateway._parts.server.look(run) is None
    with pytest.raises(NotAllowed, match="another specification"):
        await gateway.start(_order("something else"), run_id="order-18")
    assert len(drill.provider.lines()) == 1


@pytest.mark.parametrize("former", ["another order", "look"], ids=["another", "the same"])
@pytest.mark.parametrize("by", ["run_id", "idempotency_key"])
async def test_what_was_refused_is_started_later_and_shown_as_it_is(
    drill: Ground, by: str, former: str
) -> None:
    """A refused start leaves a row that says `failed`; the next one takes it over."""
    name = f"order-19-{former[:4]}"
    chosen = Chosen(run_id=name) if by == "run_id" else Chosen(idempotency_key=name)
    gateway = drill.site.gateway
    server = gateway._parts.server
    real, server.start = server.start, _refusing  # type: ignore[method-assign]
    async with drill.site.worker():
        with pytest.raises(NoReadyWorker):
            await chosen.start(gateway, _order(former))
        server.start = real  # type: ignore[method-assign]
        run = await chosen.start(gateway, _order())
        assert (await gateway.status(run)).lifecycle in {"running", "completed"}
        assert (await gateway.result(run)).outcome == "accepted"
        row = await drill.site.parts.stores.records.run(run)
        assert row is not None and (row.goal, row.lifecycle) == ("look", "completed")
    assert len(drill.provider.lines()) == 1


@pytest.mark.long
async def test_a_fork_that_was_refused_is_started_later(drill: Ground) -> None:
    """Its row has the records of the run that it goes on from, and nothing of its own."""
    gateway = drill.site.gateway
    server = gateway._parts.server
    async with drill.site.worker():
        run = await gateway.start(_order())
        await gateway.result(run)
        spec = (await gateway.fork_spec(run, 1)).model_copy(update={"goal": "look again"})
        real, server.start = server.start, _refusing  # type: ignore[method-assign]
        with pytest.raises(NoReadyWorker):
            await gateway.fork(run, 1, spec, run_id="fork-of-19")
        server.start = real  # type: ignore[method-assign]
        fork = await gateway.fork(run, 1, spec, run_id="fork-of-19")
        assert await server.look(fork) is not None
        assert (await gateway.result(fork)).outcome == "accepted"
        # Once it has worked, its history may go: the same fork is not made again.
        await _forget(drill, fork)
        assert await gateway.fork(run, 1, spec, run_id="fork-of-19") == fork
        assert await server.look(fork) is None


async def _refusing(order: object) -> bool:
    raise NoReadyWorker(f"nobody takes {type(order).__name__}")


async def test_two_keys_are_two_orders_and_one_key_is_one(drill: Ground) -> None:
    gateway = drill.site.gateway
    async with drill.site.worker():
        first, second = [
            await gateway.start(_order(), idempotency_key=key) for key in ("order-20", "order-21")
        ]
        assert first != second
        with pytest.raises(NotAllowed, match="idempotency key was used"):
            await gateway.start(_order("something else"), idempotency_key="order-20")
        for run in (first, second):
            await gateway.result(run)
