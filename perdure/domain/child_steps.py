"""Requests and reports of the steps that runs with children take."""

from pydantic import JsonValue

from perdure.domain.base import StepMessage
from perdure.domain.result import SpendReport


class SettleChildRequest(StepMessage):
    """Close a child run that ended without a result, with all below it, and say what they used."""

    child: str
    root: str


class SettleChildReport(StepMessage):
    """What the journal and the records know of a closed child run and of all below it."""

    spend: SpendReport


class ShelveRequest(StepMessage):
    """Store long inputs as blobs, so that they are passed on by reference."""

    values: dict[str, JsonValue]


class ShelveReport(StepMessage):
    """The inputs as they are passed on: short ones as they are, long ones by address.

    `shown` is their text, of long ones the beginning.
    """

    values: dict[str, JsonValue]
    shown: dict[str, str] = {}
