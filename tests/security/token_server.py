"""Hands out tokens to clients that know the secret, as OIDC does, and shows brokers the key that signs them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from typing_extensions import override

CLIENT_ID, CLIENT_SECRET = "alice", "secret-of-the-client-2718281"
_KEY = rsa.generate_private_key(65537, 2048)


@contextmanager
def token_server() -> Iterator[str]:
    """Yields its URL: ``/token`` for clients, ``/keys`` for brokers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, name="token-server", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        public = _KEY.public_key().public_numbers()
        numbers = {name: _text(_bytes(number)) for name, number in (("n", public.n), ("e", public.e))}
        self._answer(200, {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", **numbers}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        known = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {known}":
            self._answer(401, {"error": "invalid_client"})
            return
        now = int(time.time())
        claims = {"sub": CLIENT_ID, "iat": now, "exp": now + 3600, "scope": "kafka"}
        self._answer(200, {"access_token": _signed(claims), "token_type": "Bearer", "expires_in": 3600})

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keeps standard error of the tests clean."""

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _signed(claims: dict[str, object]) -> str:
    parts = ({"alg": "RS256", "typ": "JWT", "kid": "1"}, claims)
    text = ".".join(_text(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_text(_KEY.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
