"""Maps errors of the Temporal client to Perdure's errors."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from temporalio.client import (
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import (
    InvalidInput,
    NamespaceUnfit,
    NoReadyWorker,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
    StoreAway,
    StoreError,
)
from perdure.domain.foundation.plain_text import said_in_words

# A query that no worker takes ends with one of these: at our deadline, or at once if the server has
# seen no poller for minutes.
_NO_WORKER = frozenset(
    {RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.FAILED_PRECONDITION}
)

# Only these mean that the server is away; a server that refuses a request is there.
_AWAY = frozenset(
    {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}
)
_NO_ROOM = frozenset({RPCStatusCode.RESOURCE_EXHAUSTED})
_ATTRIBUTE = "search attribute"
# A server says this of itself, as UNAVAILABLE, while its database is full, locked or away. It runs
# and answers, so whoever starts it or corrects its address mends nothing.
_ITS_DATABASE = re.compile(
    r"shard status unknown|operation failed\. .*error|persistence|database is locked"
    r"|disk is full|no space left",
    re.IGNORECASE,
)
# A server says this, as UNAVAILABLE, of an update that waited for a worker until it gave up. It had
# no effect, and the server is there.
_NO_TAKER = re.compile(r"workflow update was aborted", re.IGNORECASE)
# Said of a call for a run too; that the run is not there, nobody knows then.
_NO_NAMESPACE = re.compile(r"namespace \S+ (is )?not found", re.IGNORECASE)


@contextmanager
def translate_rpc_errors(
    address: str, *, run: str | None = None, namespace: str = "default"
) -> Generator[None]:
    """Raise `PerdureError`s in place of RPC errors.

    Args:
        address: the address of the server, for the message.
        run: the run that the call is about. Without one, NOT_FOUND means the namespace; with one,
            if the server says so.
        namespace: the namespace of the call, for the message.
    """
    try:
        yield
    except RPCError as error:
        raise _of_rpc(error, address, run, namespace) from error
    except WorkflowQueryFailedError as error:
        raise ServiceUnavailable(
            f"The worker of run {run} cannot answer: {error.message}",
            cure="Read its log with `perdure logs worker`.",
        ) from error
    except WorkflowQueryRejectedError as error:
        # The server asks no worker about an execution that is paused there.
        raise no_answer(run or "") from error


@contextmanager
def update_translated(run: str, verb: str) -> Generator[None]:
    """Raise `PerdureError`s in place of the errors of an update."""
    try:
        yield
    except WorkflowUpdateFailedError as error:
        raise NotAllowed(sentence(error.cause)) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise no_answer(run, asked=f" Whether `{verb}` was taken shows in its status.") from error
    # It is a StoreError too, but says nothing of keys.
    except StoreAway:
        raise
    except StoreError as error:  # this process lacks the key or codec
        raise StoreError(
            f"The run {run} answered `{verb}`, and its answer cannot be opened here: "
            f"{error.message}",
            cure=f"{error.cure} Then its status says whether `{verb}` was taken.",
        ) from error


def unreachable(address: str, why: str) -> ServiceUnavailable:
    """The error for a Temporal server that does not answer."""
    return ServiceUnavailable(
        f"The Temporal server at {address} does not answer: {why}.",
        cure="Start it with `perdure up --detach`, or correct TEMPORAL_ADDRESS.",
    )


def _away(answer: str, said: str, address: str) -> ServiceUnavailable:
    """The error for a server that does not answer, or answers that it has no database."""
    if not _ITS_DATABASE.search(answer):
        return unreachable(address, said)
    return ServiceUnavailable(
        f"The Temporal server at {address} is there, but cannot use its own database: {said}.",
        cure="Free space on the disk of that database, or bring it back; the server's log says "
        "what it lacks (`perdure logs temporal`, if it is the embedded one). Open runs wait, and "
        "go on by themselves.",
    )


def may_return(error: ServiceUnavailable) -> bool:
    """Whether a server that gave this error may take the same request after a while.

    It may be away or have no room; what it refuses an account for, it goes on to refuse.
    """
    cause = error.__cause__
    return not isinstance(cause, RPCError) or cause.status in _AWAY | _NO_ROOM


def unknown_run(run: str) -> NotFound:
    """The error for a run that neither server nor store knows."""
    return NotFound(f"There is no run {run}.", cure="`perdure list` lists all runs.")


def no_answer(run: str, *, asked: str = "") -> NoReadyWorker:
    """The error for a query or update that no worker took in time."""
    return NoReadyWorker(
        f"No worker answers for run {run}.{asked}",
        cure="Start one with `perdure worker` (or `perdure up --detach`); the run is not lost.",
    )


def sentence(error: BaseException | None) -> str:
    """The message of a validator or handler, without the names of error classes."""
    if isinstance(error, ApplicationError):
        return error.message
    return str(error) if error is not None else "no reason was given"


def _full_name_hint(namespace: str, address: str) -> str:
    from perdure.domain.foundation.temporal_cloud import full_name_hint  # for errors alone

    return full_name_hint(namespace, address)


def _adding_commands(namespace: str) -> str:
    from perdure.domain.foundation.temporal_cloud import adding_commands  # for errors alone

    return adding_commands(namespace)


def _of_rpc(error: RPCError, address: str, run: str | None, namespace: str) -> PerdureError:
    said = said_in_words(error.message or error.status.name, otherwise="it failed inside")
    server = f"The Temporal server at {address}"
    match error.status:
        case RPCStatusCode.NOT_FOUND if run is not None and not _NO_NAMESPACE.search(said):
            return NotFound(f"{server} has no run {run}.", cure="`perdure list` lists all runs.")
        case RPCStatusCode.NOT_FOUND:
            hint = _full_name_hint(namespace, address)
            return ServiceUnavailable(
                f"{server} does not know what the request names: {said}.",
                cure=f"Check TEMPORAL_NAMESPACE, or create the namespace on the server.{hint}",
            )
        # Before `_AWAY`, which has some of the same: in a call to a run, its worker was silent.
        case status if run is not None and (status in _NO_WORKER or _NO_TAKER.search(said)):
            return no_answer(run)
        case RPCStatusCode.INVALID_ARGUMENT if _ATTRIBUTE in said.lower():
            return NamespaceUnfit(
                f"{server} refused the request, as its namespace lacks Perdure's search "
                f"attributes: {said}.",
                cure=f"Add them: {_adding_commands(namespace)}.",
            )
        case RPCStatusCode.INVALID_ARGUMENT:
            return InvalidInput(
                f"{server} refused the request: {said}.",
                cure="Correct what it names and try again.",
            )
        case RPCStatusCode.RESOURCE_EXHAUSTED:
            return ServiceUnavailable(
                f"{server} is overloaded: {said}.",
                cure="Try again in a few seconds; if it stays so, have the limits of the namespace "
                f"{namespace} raised.",
            )
        case RPCStatusCode.PERMISSION_DENIED | RPCStatusCode.UNAUTHENTICATED:
            return _not_let_in(error.status, said, address, namespace)
        case RPCStatusCode.UNIMPLEMENTED:
            return ServiceUnavailable(
                f"{server} answers, but does not support the request: {said}.",
                cure="Use the server version that docs/operations.md names, or enable the feature.",
            )
        case status if status in _AWAY:
            return _away(error.message or "", said, address)
        case _:
            return ServiceUnavailable(
                f"{server} answers, but the request failed: {said}.",
                cure="Try again; if it keeps failing, read the server's log.",
            )


def _not_let_in(
    status: RPCStatusCode, said: str, address: str, namespace: str
) -> ServiceUnavailable:
    """The error for an account that the server does not know, or that lacks a right."""
    server = f"The Temporal server at {address}"
    if status == RPCStatusCode.UNAUTHENTICATED:
        return ServiceUnavailable(
            f"{server} refuses the credentials: {said}.",
            cure="Check TEMPORAL_API_KEY or the client certificate: they may have expired.",
        )
    hint = _full_name_hint(namespace, address)
    return ServiceUnavailable(
        f"{server} does not let this account do that in the namespace {namespace!r}: {said}.",
        cure="Give the account of TEMPORAL_API_KEY or of the client certificate a role there that "
        f"may write, or correct TEMPORAL_NAMESPACE.{hint}",
    )
