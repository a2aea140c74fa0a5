"""Writes the lines of files, or of standard input, to topic ``lines``: food for ``examples/word_count.py``.

``python examples/send_lines.py README.md docs/*.md``. Creates the word count's topics where they do not exist.
"""

from __future__ import annotations

import fileinput
import os
import time

from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients

clients = ConfluentClients(os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "127.0.0.1:9092"), group="send-lines")
clients.admin().create_topics([NewTopic("lines", partitions=4), NewTopic("word-counts", partitions=4)])
producer = clients.producer()
sent = 0
with fileinput.input(encoding="utf-8", errors="replace") as lines:
    for line in lines:
        producer.send("lines", None, line.rstrip("\n").encode(), timestamp=time.time_ns() // 1_000_000)
        sent += 1
while not producer.flush(timeout_s=10):
    print("waiting for the broker ...")
producer.close()
print(f"{sent} lines sent")
