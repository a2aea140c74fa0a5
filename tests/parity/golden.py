"""Play the corpus again on a version of Kafka Streams and report what changed: ``make golden``.

Only what a case asks is read (``name``, ``config``, ``topology``, ``input``). A case that has nothing else, such as one
that was just added, counts as changed in all fields. Nothing is written unless ``--write`` is given.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from tests.parity import corpus
from tests.parity.compare import FIELDS, REFUSED, Case, asked
from tests.parity.oracle import KAFKA_VERSION, KafkaStreams, run

_NAMED_AT_MOST = 20


def changed_fields(kept: Case, now: Case) -> list[str]:
    """Returns the fields that a new answer would change in a case that is kept."""
    if "error" in now:
        return [REFUSED]
    return [field for field in FIELDS if kept.get(field) != now[field]]


def summary(file: str, changes: dict[str, list[str]], cases: int) -> list[str]:
    """Returns the report on one file: the number of changed cases by field, and the first of their names."""
    changed = {name: fields for name, fields in changes.items() if fields}
    if not changed:
        return [f"{file}: {cases} cases, nothing changed"]
    by_field = Counter(field for fields in changed.values() for field in fields)
    counted = ", ".join(f"{field} {by_field[field]}" for field in (*FIELDS, REFUSED) if by_field[field])
    lines = [f"{file}: {cases} cases, {len(changed)} changed ({counted})"]
    lines += [f"  {name}: {', '.join(fields)}" for name, fields in list(changed.items())[:_NAMED_AT_MOST]]
    more = len(changed) - _NAMED_AT_MOST
    return [*lines, f"  and {more} more"] if more > 0 else lines


def main(
    kafka_streams: Annotated[str, typer.Option(help="The version of Kafka Streams to play on.")] = KAFKA_VERSION,
    write: Annotated[bool, typer.Option("--write", help="Replace the files that changed.")] = False,
) -> None:
    """Play the corpus on Kafka Streams and print what changed; exit with 1 if something did and was not written."""
    left_unwritten = False
    with KafkaStreams(kafka_streams) as oracle:
        typer.echo(f"Kafka Streams {kafka_streams}")
        for file in corpus.FILES:
            kept = corpus.read(file)
            answers = list(oracle.play([asked(case) for case in kept]))
            changes = {case["name"]: changed_fields(case, now) for case, now in zip(kept, answers, strict=True)}
            typer.echo("\n".join(summary(file, changes, len(kept))))
            refused = [(answer["name"], answer["error"]) for answer in answers if "error" in answer]
            for name, why in refused[:_NAMED_AT_MOST]:
                typer.echo(f"  {name} is refused: {why}")
            if write and any(changes.values()) and not refused:
                corpus.write(file, [{**case, **answer} for case, answer in zip(kept, answers, strict=True)])
                typer.echo(f"  {file} is written")
            elif any(changes.values()):
                left_unwritten = True
    raise typer.Exit(1 if left_unwritten else 0)


if __name__ == "__main__":
    run(main)
