"""Certificates for servers and clients of a test, signed by authorities of its own."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

YEAR = timedelta(days=365)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """Its key."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def authority(name: str) -> Pair:
    """An authority that signs itself."""
    return _made(name, None, ends=datetime.now(UTC) + YEAR)


def signed(by: Pair, name: str, *, ends_in: timedelta = YEAR) -> Pair:
    """A certificate of a loopback server or of a client."""
    return _made(name, by, ends=datetime.now(UTC) + ends_in)


def _made(name: str, by: Pair | None, *, ends: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begun = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), ends) - DAY)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if by is not None:
        places = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        begun = begun.add_extension(x509.SubjectAlternativeName(places), critical=False)
    return Pair(begun.sign(key if by is None else by.key, hashes.SHA256()), key)
