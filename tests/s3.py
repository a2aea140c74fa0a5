"""An S3 server on a free port of this process, by moto: one bucket, any credentials."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from moto.server import ThreadedMotoServer

from penstock.common.secrets import Entries
from penstock.objects.storage import ObjectLocation

BUCKET = "penstock"


class S3Server:
    """Serves S3 while its ``with`` block runs."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)

    def __enter__(self) -> Self:
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        self.settings = Entries(
            aws_endpoint=self.endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            aws_region="us-east-1",
            allow_http="true",
        )
        import boto3  # moto brings it

        boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        ).create_bucket(Bucket=BUCKET)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.stop()

    def location(self, prefix: str) -> ObjectLocation:
        """Returns the location of ``prefix`` in the bucket."""
        return ObjectLocation(f"s3://{BUCKET}/{prefix}", self.settings)
