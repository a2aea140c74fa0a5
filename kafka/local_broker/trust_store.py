"""Gives the system's certificate authorities to a JRE that does not belong to the system.

In a network with a private certificate authority, a JRE with its own list of authorities can connect to no server. If
the system has a list for Java, it is used. Otherwise the list that Python's ``ssl`` trusts is written as a Java key
store (JKS): magic, version and count, per certificate its tag, alias, time and bytes, and at the end a keyed digest.
"""

from __future__ import annotations

import base64
import hashlib
import re
import ssl
import struct
import tempfile
from pathlib import Path

import platformdirs

SYSTEM_JAVA_STORE = Path("/etc/ssl/certs/java/cacerts")

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_PASSWORD = "changeit"


def system_trust_store() -> Path | None:
    """Returns a key store with the system's authorities; None if it has no such list, so that the JRE uses its own."""
    if SYSTEM_JAVA_STORE.is_file():
        return SYSTEM_JAVA_STORE
    bundle: str | None = ssl.get_default_verify_paths().cafile
    if not bundle:
        return None
    certificates = [base64.b64decode(body) for body in _CERTIFICATE.findall(Path(bundle).read_bytes())]
    store = java_key_store(certificates)
    target = platformdirs.user_cache_path("penstock") / f"authorities-{hashlib.sha256(store).hexdigest()[:16]}.jks"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as fresh:
            fresh.write(store)
        Path(fresh.name).replace(target)
    return target


def java_key_store(certificates: list[bytes]) -> bytes:
    """Returns DER certificates as a JKS key store of trusted entries."""
    body = bytearray(struct.pack(">III", 0xFEEDFEED, 2, len(certificates)))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", 2) + _utf(f"authority-{number}") + struct.pack(">q", 0)
        body += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False)
    return bytes(body) + digest.digest()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")
