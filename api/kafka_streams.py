"""``penstock.KafkaStreams``: the application of ``cluster/`` with the HTTP API as its server."""

from __future__ import annotations

from penstock.cluster.client.http_actor import Serve
from penstock.cluster.client.kafka_streams import KafkaStreams as WithoutServer


class KafkaStreams(WithoutServer):  # noqa: D101  # the docstring of what it is to users
    __doc__ = WithoutServer.__doc__

    def _server(self) -> Serve:
        from penstock.api.server import serve

        return serve
