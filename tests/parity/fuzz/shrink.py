"""Making a case small while it still shows the same: fewer records, fewer steps, fewer fields, plainer content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

Case = dict[str, Any]
Step = dict[str, Any]
Variants = Callable[[Case], Iterator[Case]]

_REQUIRED = {
    *("op", "id", "ids", "in", "with", "topic", "topics", "fn", "fns", "kind", "init", "key", "value"),
    *("before_ms", "after_ms", "grace_ms", "size_ms", "gap_ms", "parts"),
}
"""Fields without which a step is another one; the rest is left out if it does not matter."""

_SOURCES = (
    *("stream", "table", "versioned_table", "global_table"),
    *("add_source", "add_global_store", "add_read_only_state_store"),
)


def shrink(case: Case, shows_it: Callable[[Case], bool]) -> Case:
    """Returns the smallest case that was found for which ``shows_it`` holds; ``shows_it(case)`` must hold.

    No single one of the edits below can make the result smaller. The search is deterministic, and it ends: every
    edit that is kept makes the case smaller or plainer.
    """
    before = None
    while case != before:
        before = case
        for variants in _PASSES:
            case = _greedy(case, variants, shows_it)
    return case


def _greedy(case: Case, variants: Variants, shows_it: Callable[[Case], bool]) -> Case:
    """Try the variants one after the other; after one that is kept, its successors come from the new case."""
    position = 0
    while True:
        variant = next(islice(variants(case), position, None), None)
        if variant is None:
            return case
        if shows_it(variant):
            case = variant
        else:
            position += 1


def _fewer_records(size: int, case: Case) -> Iterator[Case]:
    events = case["input"]
    for start in range(0, len(events), size):
        yield {**case, "input": events[:start] + events[start + size :]}


def _fewer_steps(case: Case) -> Iterator[Case]:
    """Yields the case without one step and all that continues from it, the last step first."""
    steps = case["topology"]
    for number in reversed(range(len(steps))):
        gone = set(_made(steps[number]))
        left = steps[:number]
        for step in steps[number + 1 :]:
            if gone.intersection(_needed(step)):
                gone.update(_made(step))
            else:
                left.append(step)
        yield _with_steps(case, left)


def _bypassed_steps(case: Case) -> Iterator[Case]:
    """Yields the case without one step; what follows it continues from what the step was called on."""
    steps = case["topology"]
    for number, step in enumerate(steps):
        if "in" in step and _made(step):
            instead = dict.fromkeys(_made(step), step["in"])
            yield _with_steps(case, steps[:number] + [_renamed(later, instead) for later in steps[number + 1 :]])


def _fewer_fields(case: Case) -> Iterator[Case]:
    """Yields the case without an entry of the configuration or a field of a step, with a branch or a part less, or with
    one topic of several."""
    for entry in case["config"]:
        yield {**case, "config": {name: value for name, value in case["config"].items() if name != entry}}
    steps = case["topology"]
    for number, step in enumerate(steps):
        for field in [field for field in step if field not in _REQUIRED]:
            less = {name: value for name, value in step.items() if name != field}
            yield {**case, "topology": [*steps[:number], less, *steps[number + 1 :]]}
        for topic in step.get("topics", ()):
            less = {**{name: value for name, value in step.items() if name != "topics"}, "topic": topic}
            yield _with_steps(case, [*steps[:number], less, *steps[number + 1 :]])
        for part in range(len(step.get("parts", ()))):
            less = {**step, "parts": _without(step["parts"], part)}
            yield {**case, "topology": [*steps[:number], less, *steps[number + 1 :]]}
        for branch in range(len(step.get("fns", ()))):
            less = {**step, "fns": _without(step["fns"], branch), "ids": _without(step["ids"], branch)}
            yield {**case, "topology": [*steps[:number], less, *steps[number + 1 :]]}


def _plainer_records(case: Case) -> Iterator[Case]:
    """Yields the case with one record's headers left out, its time nearer to 0, its key or value the plainest."""
    events = case["input"]
    for number, event in enumerate(events):
        for plainer in _plainer(event):
            yield {**case, "input": [*events[:number], plainer, *events[number + 1 :]]}


def _plainer(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "ts" not in event:
        return
    if "headers" in event:
        yield {name: value for name, value in event.items() if name != "headers"}
    for earlier in (0, event["ts"] // 1000, event["ts"] - 1):
        if 0 <= earlier < event["ts"]:
            yield {**event, "ts": earlier}
    for field in ("key", "value"):
        plainest = 0 if isinstance(event[field], int) else "a"
        if event[field] is not None and event[field] != plainest:
            yield {**event, field: plainest}


_PASSES: tuple[Variants, ...] = (
    *(partial(_fewer_records, size) for size in (16, 4, 1)),
    _fewer_steps,
    _bypassed_steps,
    _fewer_fields,
    _plainer_records,
)


def _made(step: Step) -> list[str]:
    """Returns the ids that later steps may name; a sink has none."""
    if step["op"] in ("to", "for_each", "print"):
        return []
    return list(step.get("ids", [step[field] for field in ("id",) if field in step]))


def _needed(step: Step) -> list[str]:
    parts = [part["in"] for part in step.get("parts", ())]
    return [*(step[field] for field in ("in", "with") if field in step), *parts]


def _renamed(step: Step, instead: dict[str, str]) -> Step:
    step = {**step, **{field: instead.get(step[field], step[field]) for field in ("in", "with") if field in step}}
    if "parts" in step:
        step["parts"] = [{**part, "in": instead.get(part["in"], part["in"])} for part in step["parts"]]
    return step


def _without(items: list[Any], number: int) -> list[Any]:
    return items[:number] + items[number + 1 :]


def _with_steps(case: Case, steps: list[Step]) -> Case:
    """Returns ``case`` with other steps, without records of topics that none of them reads."""
    sources = [step for step in steps if step["op"] in _SOURCES]
    read = {topic for step in sources for topic in step.get("topics", [step.get("topic")])}
    events = [event for event in case["input"] if event.get("topic", None) in (None, *read)]
    return {**case, "topology": steps, "input": events}
