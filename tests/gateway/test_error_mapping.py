import pytest
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import (
    InvalidInput,
    NamespaceUnfit,
    NoReadyWorker,
    NotFound,
    PerdureError,
    ServiceUnavailable,
)
from perdure.gateway.error_mapping import translate_rpc_errors


@pytest.mark.parametrize(
    ("status", "run", "error", "words"),
    [
        (RPCStatusCode.NOT_FOUND, "r", NotFound, "no run r"),
        (RPCStatusCode.NOT_FOUND, None, ServiceUnavailable, "does not know"),
        (RPCStatusCode.DEADLINE_EXCEEDED, "r", NoReadyWorker, "No worker answers for run r"),
        (RPCStatusCode.DEADLINE_EXCEEDED, None, ServiceUnavailable, "does not answer"),
        (RPCStatusCode.FAILED_PRECONDITION, "r", NoReadyWorker, "perdure worker"),
        (RPCStatusCode.UNAVAILABLE, "r", ServiceUnavailable, "perdure up"),
        (RPCStatusCode.INVALID_ARGUMENT, "r", InvalidInput, "refused the request: oops"),
        (RPCStatusCode.RESOURCE_EXHAUSTED, "r", ServiceUnavailable, "in a few seconds"),
        (RPCStatusCode.UNIMPLEMENTED, None, ServiceUnavailable, "does not support the request"),
        (RPCStatusCode.INTERNAL, None, ServiceUnavailable, "answers, but the request failed: oops"),
        (RPCStatusCode.PERMISSION_DENIED, None, ServiceUnavailable, "TEMPORAL_API_KEY"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_rpc_errors_become_ours(
    status: RPCStatusCode, run: str | None, error: type[PerdureError], words: str
) -> None:
    with pytest.raises(error) as caught, translate_rpc_errors("host:7233", run=run):
        raise RPCError("oops", status, b"")
    assert words in str(caught.value)
    assert type(caught.value) is error


@pytest.mark.parametrize("status", [*RPCStatusCode], ids=lambda status: status.name)
@pytest.mark.parametrize("run", ["r", None])
def test_only_who_is_away_does_not_answer(status: RPCStatusCode, run: str | None) -> None:
    with pytest.raises(PerdureError) as caught, translate_rpc_errors("host:7233", run=run):
        raise RPCError("oops", status, b"")
    away = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}
    assert ("does not answer" not in str(caught.value)) or status in away


@pytest.mark.parametrize("run", ["r", None])
@pytest.mark.parametrize(
    "said",
    [
        "shard status unknown",
        "UpdateWorkflowExecution operation failed. Failed to commit transaction. "
        "Error: database or disk is full (13)",
    ],
)
def test_a_server_whose_own_disk_is_full_is_not_to_be_started(said: str, run: str | None) -> None:
    """As server 1.32 said it on a full disk."""
    with pytest.raises(ServiceUnavailable) as caught, translate_rpc_errors("host:7233", run=run):
        raise RPCError(said, RPCStatusCode.UNAVAILABLE, b"")
    assert "cannot use its own database" in caught.value.message
    assert "Free space on the disk" in caught.value.cure
    assert "perdure up" not in caught.value.cure


def test_an_update_that_a_server_gave_up_found_no_worker() -> None:
    with pytest.raises(NoReadyWorker) as caught, translate_rpc_errors("host:7233", run="r"):
        raise RPCError("workflow update was aborted", RPCStatusCode.UNAVAILABLE, b"")
    assert "perdure worker" in caught.value.cure


def test_missing_search_attributes_are_told_with_the_command() -> None:
    said = "Namespace team has no mapping defined for search attribute PerdureKind"
    with (
        pytest.raises(NamespaceUnfit) as caught,
        translate_rpc_errors("host:7233", namespace="team"),
    ):
        raise RPCError(said, RPCStatusCode.INVALID_ARGUMENT, b"")
    assert "--namespace team --name PerdureKind --type Keyword" in caught.value.cure


@pytest.mark.parametrize("run", ["r", None])
@pytest.mark.parametrize("said", ["Namespace shop is not found.", "Namespace shop not found"])
def test_a_namespace_that_is_not_there_says_nothing_of_a_run(run: str | None, said: str) -> None:
    with (
        pytest.raises(ServiceUnavailable, match="TEMPORAL_NAMESPACE"),
        translate_rpc_errors("h", run=run),
    ):
        raise RPCError(said, RPCStatusCode.NOT_FOUND, b"")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("tcp connect error: Os { code: 111, kind: ConnectionRefused }", ": connection refused."),
        ("failed: database or disk is full (13) INSERT INTO executions", ": the disk is full."),
        ("tonic::transport::Error(Other)", ": it failed inside."),
    ],
    ids=["connection", "disk", "unknown"],
)
def test_insides_of_the_server_reach_nobody(said: str, words: str) -> None:
    with pytest.raises(ServiceUnavailable) as caught, translate_rpc_errors("host:7233", run="r"):
        raise RPCError(said, RPCStatusCode.UNAVAILABLE, b"")
    assert caught.value.message.endswith(words)


def test_a_short_name_of_a_cloud_namespace_is_told_with_its_account() -> None:
    address = "us-east-1.aws.api.temporal.io:7233"
    for status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.NOT_FOUND):
        with (
            pytest.raises(ServiceUnavailable) as caught,
            translate_rpc_errors(address, namespace="shop"),
        ):
            raise RPCError("Request unauthorized.", status, b"")
        assert "the full name with the account: shop.ACCOUNT" in caught.value.cure
        with (
            pytest.raises(ServiceUnavailable) as caught,
            translate_rpc_errors(address, namespace="shop.a1"),
        ):
            raise RPCError("Request unauthorized.", status, b"")
        assert "ACCOUNT" not in caught.value.cure
