"""The origin of a request, from the headers that browsers send.

Without tokens the server listens on the loopback alone and answers every program there. These include the browsers of
that machine, which run the scripts of every page that their users visit. Two headers distinguish a request of such a
page from a user's:

- ``Host``: a page whose own host name points to 127.0.0.1 (DNS rebinding) still sends that name.
- ``Sec-Fetch-Site`` and ``Origin``: in both a browser names the requesting site, and no page can change them.

A request with a token needs neither: a browser sends no ``Authorization`` by itself, and no page knows a token.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache

from penstock.api.problems import ProblemError

_ASKED_FOR = frozenset({b"host", b"origin", b"sec-fetch-site"})
_OWN_SITE = (b"same-origin", b"none")
"""``none``: the user has typed the address. Another port of the same host is ``same-site``, and another program."""


def refusal_of_strangers(headers: Iterable[tuple[bytes, bytes]], scheme: str, own_host: str) -> ProblemError | None:
    """The refusal of a request that names a host other than the loopback or ``own_host``, or that a page of another
    site makes; None for all others."""
    given = [header for header in headers if header[0] in _ASKED_FOR]
    hosts = [value for name, value in given if name == b"host"]
    if len(hosts) != 1 or not _is_here(hosts[0], own_host):
        named = b", ".join(hosts).decode("latin-1") or "no host"
        detail = (
            "this server has no tokens, so it answers only requests whose header Host is localhost, 127.0.0.1 or "
            f"[::1]; this one names {named}. A proxy must set that header, or the application needs tokens "
            "(docs/SECURITY.md)"
        )
        return ProblemError(403, "foreign-host", "The host is not this machine", detail)
    own_origin = scheme.encode() + b"://" + hosts[0].lower()
    allowed = {b"host": hosts, b"origin": (own_origin,), b"sec-fetch-site": _OWN_SITE}
    foreign = [
        f"{name.decode().title()}: {value.decode('latin-1')}" for name, value in given if value not in allowed[name]
    ]
    if not foreign:
        return None
    detail = (
        "this server has no tokens, so it answers no request that a web page of another site makes: this one has "
        f"{' and '.join(foreign)}. Other sites need a token (docs/SECURITY.md)"
    )
    return ProblemError(403, "cross-site", "The request comes from another site", detail)


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::[0-9]*)?")


@lru_cache(maxsize=1000)
def _is_here(host: bytes, own_host: str) -> bool:
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    if found is None:
        return False
    name = found[1] or found[2]
    if name in ("localhost", own_host.lower()):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
