"""A mock registry over HTTP, in the words of Confluent's: for processes of an application on Ray or Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import penstock as ps
from penstock.common.errors import RetriableError
from penstock.registry.contracts import RegisteredSchema, Schema, SchemaNotFoundError, SchemaRefusedError


@contextmanager
def served(registry: ps.MockSchemaRegistry) -> Iterator[str]:
    """Yields the URL of a server that answers with what ``registry`` says: also with its outages."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0].strip("/").split("/"):
                case ["schemas", "ids", schema_id]:
                    self.answer(lambda: as_json(registry.schema(int(schema_id))))
                case ["subjects", subject, "versions", "latest"]:
                    self.answer(lambda: as_version(registry.latest(subject)))
                case ["subjects", subject, "versions", number]:
                    self.answer(lambda: as_version(registry.version(subject, int(number))))
                case other:
                    raise NotImplementedError(f"GET {other}")

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            schema = Schema(sent["schema"], sent.get("schemaType", "AVRO"))
            match self.path.partition("?")[0].strip("/").split("/"):
                case ["subjects", subject, "versions"]:
                    self.answer(lambda: {"id": registry.register(subject, schema, False)})
                case ["subjects", subject]:
                    self.answer(lambda: as_version(registry.lookup(subject, schema, False)))
                case other:
                    raise NotImplementedError(f"POST {other}")

        def answer(self, ask: Any) -> None:
            try:
                status, body = 200, ask()
            except SchemaNotFoundError as error:
                status, body = 404, {"error_code": 40403, "message": str(error)}
            except SchemaRefusedError as error:
                status, body = 409, {"error_code": 409, "message": str(error)}
            except RetriableError as error:
                status, body = 503, {"error_code": 50301, "message": str(error)}
            shown = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(shown)))
            self.end_headers()
            self.wfile.write(shown)

        def log_message(self, *arguments: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def as_json(schema: Schema) -> dict[str, Any]:
    return {"schema": schema.text, "schemaType": schema.type}


def as_version(found: RegisteredSchema) -> dict[str, Any]:
    return {"id": found.id, "version": found.version, "subject": found.subject, **as_json(found.schema)}
