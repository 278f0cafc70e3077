"""Why a connection to Temporal failed: the setting, its value, and the cure. No key is ever shown.

The client gives one error for all, with the words of its libraries. Only what is certain from them
is told as a fact.
"""

import base64
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from temporalio.envconfig import ClientConfigProfile, ClientConfigTLS

from perdure.adapters.settings.secret_references import shown
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.domain.foundation.temporal_cloud import full_name_hint, is_cloud_address

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):\d{1,5}")
_STATUS = re.compile(r'Status \{ code: (\w+), message: "((?:[^"\\]|\\.)*)"')
_CUT = re.compile(
    r"BrokenPipe|UnexpectedEof|ConnectionReset|reset by peer|fatal alert|ConnectionAborted"
    r"|connection closed"
)
_CLIENT_ALERT = re.compile(
    r"CertificateRequired|BadCertificate|UnknownCA|CertificateExpired|CertificateUnknown"
    r"|AccessDenied|CertificateRevoked|UnsupportedCertificate"
)
_LATER = re.compile(r"temporary failure|try again", re.IGNORECASE)
KEY_ENDPOINT = (
    " Temporal Cloud takes an API key at an endpoint of its own: "
    "REGION.PROVIDER.api.temporal.io:7233."
)
START = "Start it (`perdure up` for the embedded one) or correct {address}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a connection was tried with.

    `address` is where, `reference` is what led to the key of the profile.
    """

    address: str
    profile: ClientConfigProfile = field(repr=False)
    reference: str | None = None

    @property
    def namespace(self) -> str:
        return self.profile.namespace or "default"

    @property
    def key(self) -> str | None:
        return self.profile.api_key

    @property
    def server(self) -> str:
        return f"The Temporal server at {self.address}"

    @property
    def encrypted(self) -> bool:
        """Whether the connection was to use TLS, which an API key asks for too."""
        tls = self.profile.tls
        return bool(self.key) if tls is None else not tls.disabled

    @property
    def tls(self) -> ClientConfigTLS:
        return self.profile.tls or ClientConfigTLS()


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed connection in words.

    `heals`: the same settings may succeed later. `wrong`: a setting itself cannot be used, whatever
    the server says. `busy`: the server has no room now.
    """

    message: str
    cure: str
    heals: bool = False
    wrong: bool = False
    busy: bool = False


def connection_failure(error: BaseException, attempt: Attempt) -> Failure:
    """Why an attempt failed.

    Args:
        error: as the client raised it, or the reading of its files.
        attempt: what was tried.
    """
    said = str(error)
    for explain in _EXPLAIN:
        if (found := explain(error, said, attempt)) is not None:
            return found
    late = isinstance(error, TimeoutError)
    why = cause_in_words(error, otherwise="no answer in time" if late else "the connection failed")
    return Failure(
        f"{attempt.server} does not answer: {why}.", _start(attempt), heals=_heals(error, said)
    )


def place(name: str) -> str:
    """Where a setting of the connection stands: its variable, or the field of the profile."""
    variable = f"TEMPORAL_{name.upper()}"
    if variable in os.environ or "TEMPORAL_PROFILE" not in os.environ:
        return variable
    return f"`{name}` of the profile {os.environ['TEMPORAL_PROFILE']} (or {variable})"


def _start(attempt: Attempt) -> str:
    if is_cloud_address(attempt.address):
        return (
            f"Correct {place('address')}, or open the way there: a firewall, a proxy or a private "
            "endpoint may be between."
        )
    return START.format(address=place("address"))


def _heals(error: BaseException, said: str) -> bool:
    """Whether a server that is being restarted or moved looks so too."""
    if "dns error" in said:
        return _LATER.search(said) is not None
    return isinstance(error, TimeoutError | ConnectionError) or "tcp connect error" in said


def _bad_address(_error: BaseException, _said: str, attempt: Attempt) -> Failure | None:
    if _ADDRESS.fullmatch(attempt.address):
        return None
    return Failure(
        f"{place('address')} is {attempt.address!r}, which is no HOST:PORT.",
        "Give host and port alone, such as localhost:7233 or NAME.ACCOUNT.tmprl.cloud:7233.",
        wrong=True,
    )


def _unreadable_file(error: BaseException, said: str, attempt: Attempt) -> Failure | None:
    tls, files = attempt.tls, dict[str, Path]()
    for name, source in (
        ("tls_client_cert_path", tls.client_cert),
        ("tls_client_key_path", tls.client_private_key),
        ("tls_server_ca_cert_path", tls.server_root_ca_cert),
    ):
        if isinstance(source, Path):
            files[name] = source
    if isinstance(error, OSError):
        for name, path in files.items():
            if why := _why_unread(path):
                return Failure(
                    f"{place(name)} names {path}, which cannot be read: {why}.",
                    "Correct the path, or let this user read the file.",
                    wrong=True,
                )
    if "KeyMismatch" in said:
        return Failure(
            f"The client key of {place('tls_client_key_path')}{_of(files, 'tls_client_key_path')} "
            "does not belong to the certificate of "
            f"{place('tls_client_cert_path')}{_of(files, 'tls_client_cert_path')}.",
            "Name the two files of one pair.",
            wrong=True,
        )
    if "KeyParseError" in said or "CertificateParse" in said or "no certificate" in said.lower():
        name = "tls_client_key_path" if "Key" in said else "tls_client_cert_path"
        return Failure(
            f"What {place(name)} names{_of(files, name)} is no PEM file of its kind.",
            "Give PEM files: `-----BEGIN CERTIFICATE-----` and `-----BEGIN PRIVATE KEY-----`.",
            wrong=True,
        )
    return None


def _of(files: dict[str, Path], name: str) -> str:
    return f" ({files[name]})" if name in files else ""


def _why_unread(path: Path) -> str:
    try:
        with path.open("rb"):
            return ""
    except OSError as error:
        return (error.strerror or "it cannot be opened").lower()


def _unknown_host(_error: BaseException, said: str, attempt: Attempt) -> Failure | None:
    if "dns error" not in said:
        return None
    host = attempt.address.rpartition(":")[0]
    cure = f"Correct {place('address')}."
    if is_cloud_address(attempt.address):
        cure = f"{cure} The console of Temporal Cloud shows the endpoint of the namespace."
    return Failure(
        f"{attempt.server} does not answer: no such host {host} (DNS).",
        cure,
        heals=_LATER.search(said) is not None,
    )


def _plain_server(_error: BaseException, said: str, attempt: Attempt) -> Failure | None:
    if "InvalidContentType" not in said and "InvalidMessage" not in said:
        return None
    why = "an API key is set, which turns TLS on" if attempt.profile.tls is None else "TLS is on"
    return Failure(
        f"{attempt.server} does not speak TLS, and {why}.",
        f"Correct {place('address')}; or, for a server behind a network that you trust, set "
        "TEMPORAL_TLS=false.",
    )


def _server_certificate(_error: BaseException, said: str, attempt: Attempt) -> Failure | None:
    if "InvalidCertificate" not in said:
        return None
    if "NotValidForName" in said:
        expected = re.search(r'expected: \w+\("([^"]+)"\)', said)
        name = expected.group(1) if expected else attempt.address
        return Failure(
            f"The certificate of {_lower(attempt.server)} is not for the name {name}.",
            f"Correct {place('address')}, or name the host of its certificate in "
            f"{place('tls_server_name')}.",
        )
    if "Expired" in said:
        return Failure(
            f"The certificate of {_lower(attempt.server)} has expired.",
            "Let whoever runs the server renew it; or correct the clock of this host.",
        )
    ca = attempt.tls.server_root_ca_cert
    named = f" {ca}" if isinstance(ca, Path) else ""
    by = f"the authority of {place('tls_server_ca_cert_path')}{named}" if ca else "this system"
    return Failure(
        f"The certificate of {_lower(attempt.server)} is not trusted by {by}.",
        f"Name the file of the authority that signed it in {place('tls_server_ca_cert_path')}.",
    )


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _cut_at_once(_error: BaseException, said: str, attempt: Attempt) -> Failure | None:
    """A server ends a connection that lacks TLS or a certificate without a word."""
    if not _CUT.search(said):
        return None
    if not attempt.encrypted:
        if is_cloud_address(attempt.address):
            return Failure(
                f"{attempt.server} speaks TLS alone, and TLS is off here.",
                f"Set a client certificate ({place('tls_client_cert_path')} and "
                f"{place('tls_client_key_path')}) or an API key ({place('api_key')}).",
            )
        return Failure(
            f"{attempt.server} ended the connection at once, without TLS.",
            "If it speaks TLS, set TEMPORAL_TLS=true; otherwise read its log.",
            heals=True,
        )
    asked = attempt.tls.client_cert
    certain = _CLIENT_ALERT.search(said) is not None
    if asked is None:
        return Failure(
            f"{attempt.server} ended the TLS handshake: "
            f"{'it wants' if certain else 'it may want'} a client certificate, and none is set.",
            f"Name one in {place('tls_client_cert_path')} and {place('tls_client_key_path')}."
            f"{KEY_ENDPOINT if attempt.key else ''}",
            heals=not certain,
        )
    until = _certificate_words(asked)
    return Failure(
        f"{attempt.server} ended the TLS handshake: it "
        f"{'refuses' if certain else 'may refuse'} the client certificate of "
        f"{place('tls_client_cert_path')}{until}.",
        "Use a certificate that is valid and signed by an authority that the namespace trusts.",
        heals=not certain and "expired" not in until,
    )


def _certificate_words(source: Path | str | bytes) -> str:
    """The file, subject and end of a client certificate."""
    from cryptography import x509  # only for a failed connection

    path = f" {source}" if isinstance(source, Path) else ""
    try:
        data = source.read_bytes() if isinstance(source, Path) else source
        found = x509.load_pem_x509_certificate(data.encode() if isinstance(data, str) else data)
    except (OSError, ValueError):
        return path
    end = found.not_valid_after_utc
    word = "expired on" if end < datetime.now(UTC) else "valid until"
    return f"{path} ({found.subject.rfc4514_string()}, {word} {end:%Y-%m-%d %H:%M} UTC)"


def _answered(_error: BaseException, said: str, attempt: Attempt) -> Failure | None:
    """The server answered the first request with an error."""
    if (status := _STATUS.search(said)) is None:
        return None
    code, words = status.group(1), status.group(2).rstrip(".") or "no reason given"
    match code:
        case "Unauthenticated":
            return _unauthenticated(words, attempt)
        case "PermissionDenied":
            return Failure(
                f"{attempt.server} does not let this account use the namespace "
                f"{attempt.namespace!r}: {words}.",
                _of_permission(attempt),
            )
        case "NotFound":
            return Failure(*no_namespace(attempt.server, attempt.namespace, attempt.address))
        case "ResourceExhausted":
            return Failure(
                f"{attempt.server} is overloaded: {words}.",
                "Try again in a few seconds, or have the rate of the namespace raised.",
                heals=True,
                busy=True,
            )
        case "Unavailable" | "DeadlineExceeded" | "Cancelled":
            return Failure(
                f"{attempt.server} does not answer: {words}.", _start(attempt), heals=True
            )
        case _:
            return None


def _of_permission(attempt: Attempt) -> str:
    credentials = "API key" if attempt.key else "client certificate"
    cure = f"Give the account of the {credentials} a role in the namespace, or correct "
    cure += f"{place('namespace')}."
    return f"{cure}{full_name_hint(attempt.namespace, attempt.address)}"


def _unauthenticated(words: str, attempt: Attempt) -> Failure:
    if attempt.key is None:
        return Failure(
            f"{attempt.server} wants credentials, and no API key is set: {words}.",
            f"Set {place('api_key')} to the key or to a reference, such as file:/run/secrets/key.",
        )
    where = "" if attempt.reference is None else f" ({shown(attempt.reference)})"
    ended = _expiry(attempt.key)
    if ended is not None and ended < datetime.now(UTC):
        return Failure(
            f"The API key of {place('api_key')}{where} has expired on {ended:%Y-%m-%d %H:%M} UTC; "
            f"{_lower(attempt.server)} refuses it: {words}.",
            "Make a new key and put it in the place of the old one.",
        )
    return Failure(
        f"{attempt.server} refuses the API key of {place('api_key')}{where}: {words}.",
        "Check that it is whole, not disabled, and of an account with a role in the namespace "
        f"{attempt.namespace!r}.{full_name_hint(attempt.namespace, attempt.address)}",
    )


def _expiry(key: str) -> datetime | None:
    """When a key in the form of a JSON web token ends; nothing of it is verified."""
    parts = key.split(".")
    if len(parts) != 3:
        return None
    try:
        # Such tokens leave out the padding, without which Python decodes nothing.
        told = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(float(told["exp"]), UTC)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def no_namespace(server: str, namespace: str, address: str) -> tuple[str, str]:
    """Message and cure for a namespace that the server does not have."""
    return (
        f"{server} has no namespace {namespace!r}.",
        f"Correct {place('namespace')}, or create the namespace on the server."
        f"{full_name_hint(namespace, address)}",
    )


Explain = Callable[[BaseException, str, Attempt], Failure | None]
# The first that explains it counts: a wrong setting comes before what the server did.
_EXPLAIN: tuple[Explain, ...] = (
    _bad_address, _unreadable_file, _unknown_host, _plain_server, _server_certificate,
    _cut_at_once, _answered,
)  # fmt: skip
