"""``python -m tests.kafka.outage_programs member|questions ADDRESS GROUP TOPIC``: clients that live through outages.

In a process of its own, since a fault of librdkafka ends the whole process. It works until its standard input ends.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable

from penstock.cluster.coordinator_shell.membership import FINAL
from penstock.common.errors import StreamsError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.group_tools import GroupTools
from tests.cluster.static_members import static_member_for

SESSION_MS = 1_000
SETTINGS = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}


def instance_id(address: str, group: str, topic: str) -> None:
    """Keeps a static member as a coordinator does, and commits one offset after the other."""
    clients, here = ConfluentClients(address, group, SETTINGS), TopicPartition(topic, 0)
    with static_member_for(clients, topic) as it:
        for offset in itertools.count(1):
            try:
                it.membership.commit({here: CommittedOffset(offset)}).result()
            except FINAL:
                raise
            except StreamsError:
                pass  # it passes: the dispatcher would try again, too


def questions(address: str, group: str, topic: str) -> None:
    """Asks all that penstock asks of an admin client, each by one that is kept and by one that is not."""
    answers, saying = dict[str, int](), threading.Lock()
    tools, here = GroupTools(address), TopicPartition(topic, 0)
    asked: dict[str, Callable[[GroupTools], object]] = {
        "members": lambda it: it.members(group),
        "groups": lambda it: it.groups(),
        "commit": lambda it: it.commit(f"{group}-of-nobody", {here: CommittedOffset(1)}),
        "committed": lambda it: it.committed(group),
        "ends": lambda it: it.end_offsets([here]),
        "configs": lambda it: it.topic_configs([topic]),
        "delete": lambda it: it.delete_records({here: 0}),
        "reach": lambda it: it.reach(),
    }

    def ask_for_ever(what: str, kept: GroupTools | None) -> None:
        while True:
            try:
                asked[what](kept or GroupTools(address))
            except StreamsError:
                continue
            with saying:
                answers[what] = answers.get(what, 0) + 1
                print(json.dumps(answers), flush=True)

    for what in asked:
        for kept in (tools, None):
            threading.Thread(target=ask_for_ever, args=(what, kept), daemon=True).start()
    threading.Event().wait()


def main(program: str, *arguments: str) -> None:
    """Until standard input ends, or the program by an error."""

    def end() -> None:
        sys.stdin.read()
        os._exit(0)  # whatever waits for a broker just now

    threading.Thread(target=end, daemon=True).start()
    {"member": instance_id, "questions": questions}[program](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
