"""A process that died alone is distinguished from one that was lost with its node."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.environment import NodeAnswer
from penstock.cluster.events import FindCause, ProcessDied
from penstock.cluster.watchers.loss_causes import LOOK_AFTER_S, find_cause
from tests.cluster.virtual_time import run


@pytest.mark.parametrize(
    ("answer", "fed"),
    [
        (NodeAnswer.ANSWERS, [ProcessDied(2)]),
        (NodeAnswer.REFUSES, []),
        (NodeAnswer.GONE, []),
        (NodeAnswer.UNREACHABLE, []),
    ],
)
def test_only_a_node_that_answers_some_seconds_later_blames_the_process(
    answer: NodeAnswer, fed: list[ProcessDied]
) -> None:
    async def play() -> None:
        began = asyncio.get_running_loop().time()

        async def node(node_id: str) -> NodeAnswer:
            assert node_id == "a"
            assert asyncio.get_running_loop().time() - began >= LOOK_AFTER_S
            return answer

        heard: list[ProcessDied] = []
        await find_cause(FindCause(2, "a"), node, heard.append)
        assert heard == fed

    run(play())
