"""Ray nodes are asked by a connection to their raylets, and by Ray's own list."""

from __future__ import annotations

import asyncio
import socket
import threading

from penstock.cluster.environment import NodeAnswer
from penstock.cluster.ray_cluster.node_probe import NodeProbe
from tests.ports import closed_port


def test_a_node_is_asked_by_a_connection_to_its_raylet() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as there, closed_port() as closed:
            nodes = {"a": ("127.0.0.1", there.getsockname()[1]), "b": ("127.0.0.1", closed), "c": None}
            probe = NodeProbe(lambda: nodes)
            answers = [await probe.ask(node) for node in ("a", "b", "c", "nobody knows")]
            assert answers == [NodeAnswer.ANSWERS, NodeAnswer.REFUSES, NodeAnswer.GONE, NodeAnswer.ANSWERS]
            nodes["b"] = None
            assert await probe.ask("b") is NodeAnswer.ENDED, "Ray itself is the second witness"
            nodes["a"] = None
            await probe.ask("new")
            assert await probe.ask("a") is NodeAnswer.GONE, "Ray may be wrong"

    asyncio.run(story())


def test_a_list_of_nodes_that_ray_does_not_give_is_waited_for_a_second_and_asked_for_once() -> None:
    async def story() -> None:
        may_answer, asked = threading.Event(), []

        def addresses() -> dict[str, tuple[str, int] | None]:
            asked.append(1)
            may_answer.wait()
            return {"a": None}

        probe = NodeProbe(addresses)
        try:
            assert [await probe.ask("a") for _ in range(2)] == [NodeAnswer.ANSWERS] * 2
            assert len(asked) == 1
        finally:
            may_answer.set()
        assert await probe.ask("a") is NodeAnswer.GONE

    asyncio.run(story())


def test_a_list_of_nodes_that_ray_fails_to_give_lets_nothing_be_concluded_and_is_asked_for_again() -> None:
    answers: list[dict[str, tuple[str, int] | None]] = [{"a": None}]

    def addresses() -> dict[str, tuple[str, int] | None]:
        if len(asked) < 2:
            asked.append(1)
            raise RuntimeError("Failed to connect to GCS")
        return answers[0]

    async def story() -> None:
        probe = NodeProbe(addresses)
        assert [await probe.ask("a") for _ in range(3)] == [NodeAnswer.ANSWERS, NodeAnswer.ANSWERS, NodeAnswer.GONE]

    asked: list[int] = []
    asyncio.run(story())
