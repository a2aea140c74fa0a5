"""Certificates for a test: an authority, what it has signed, and a stranger to it."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY_PASSWORD = "password-of-the-key"


@dataclass(frozen=True)
class Identity:
    """A key and its certificate: each in a PEM file, together in a third, and the key encrypted in a fourth."""

    certificate: Path
    key: Path
    both: Path
    encrypted_key: Path


class Authority:
    """Signs certificates; ``certificate`` is its own."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = folder / f"{name}.pem"
        self._own = (
            _certificate(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_authority_usage(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate.write_bytes(self._own.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str) -> Identity:
        """Makes a key for ``name``, and a certificate that is valid for 127.0.0.1 and localhost."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = (
            _certificate(subject, self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(authority, critical=False)
            .sign(self._key, hashes.SHA256())
        ).public_bytes(serialization.Encoding.PEM)
        plain, encrypted = (
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
            for encryption in (
                serialization.NoEncryption(),
                serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
            )
        )
        found = Identity(*(self._folder / f"{name}{end}" for end in (".crt", ".key", ".both", ".encrypted.key")))
        found.certificate.write_bytes(signed)
        found.key.write_bytes(plain)
        found.both.write_bytes(plain + signed)
        found.encrypted_key.write_bytes(encrypted)
        return found


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
    )


def _authority_usage() -> x509.KeyUsage:
    unwanted = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **dict.fromkeys(unwanted, False)
    )
