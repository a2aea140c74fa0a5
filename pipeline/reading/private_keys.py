"""Private keys in PEM, in the form that Java reads: PKCS#8. Pure."""

from __future__ import annotations

import base64
import binascii
import re

from penstock.common.errors import ConfigError

_BLOCK = re.compile(r"-----BEGIN (RSA|EC) PRIVATE KEY-----\n?(.*?)-----END \1 PRIVATE KEY-----", re.DOTALL)
_PARAMETERS = re.compile(r"-----BEGIN EC PARAMETERS-----.*?-----END EC PARAMETERS-----\s*", re.DOTALL)
_PKCS8 = ("BEGIN PRIVATE KEY", "BEGIN ENCRYPTED PRIVATE KEY")
_SEQUENCE, _INTEGER, _OCTETS, _OBJECT, _NULL, _CURVE = 0x30, 0x02, 0x04, 0x06, 0x05, 0xA0
_RSA = bytes.fromhex("2a864886f70d010101")
_ELLIPTIC = bytes.fromhex("2a8648ce3d0201")


def in_pkcs8(text: str) -> str:
    """Returns the key of ``text`` in PKCS#8: as it is, or converted from the older forms of RSA and EC keys.

    Raises ConfigError for an encrypted key in an older form, and for a text without a key of a known form.
    """
    if any(kind in text for kind in _PKCS8):
        return text
    found = _BLOCK.search(text.replace("\r\n", "\n"))
    if found is None or "Proc-Type" in found[2]:
        kind = "an encrypted key in a form older than PKCS#8" if found else "no private key in PEM"
        raise ConfigError(
            f"configuration key 'ssl.key.location': it holds {kind}, and Java reads keys in PKCS#8 alone "
            "('BEGIN PRIVATE KEY'): openssl pkcs8 -topk8 -in KEY -out NEW writes one"
        )
    try:
        key = base64.b64decode("".join(found[2].split()), validate=True)
        algorithm = _element(_OBJECT, _RSA) + _element(_NULL, b"")
        if found[1] == "EC":
            algorithm = _element(_OBJECT, _ELLIPTIC) + _curve_of(key)
    except (binascii.Error, IndexError, ValueError) as error:
        raise ConfigError(f"configuration key 'ssl.key.location': the key is damaged: {error}") from None
    wrapped = _element(_INTEGER, b"\0") + _element(_SEQUENCE, algorithm) + _element(_OCTETS, key)
    lines = base64.encodebytes(_element(_SEQUENCE, wrapped)).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n"


def _element(tag: int, content: bytes) -> bytes:
    """Returns an element of ASN.1 in DER."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _curve_of(key: bytes) -> bytes:
    """Returns the name of the curve, as DER, from an EC key: a version, the key, the curve, the public key."""
    _, content, _ = _first(key)
    while content:
        tag, inner, content = _first(content)
        if tag == _CURVE:
            return inner
    raise ValueError("it does not name its curve")


def _first(content: bytes) -> tuple[int, bytes, bytes]:
    """Returns tag and content of the first element, and what follows it."""
    size, begin = content[1], 2
    if size & 0x80:
        begin += size & 0x7F
        size = int.from_bytes(content[2:begin], "big")
    if begin + size > len(content):
        raise ValueError("it ends early")
    return content[0], content[begin : begin + size], content[begin + size :]
