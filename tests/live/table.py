"""The table of a long run, as docs/PARITY.md shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.live.bunches import shape_of


def table(results: Sequence[dict[str, Any]]) -> str:
    """Returns a row for each shape. An application that was played twice counts as it was played last."""
    last = {(result["how"], result["bunch"]): result for result in results}
    ways = sorted({how for how, _ in last}, reverse=True)
    counts: Counter[tuple[str, str, str]] = Counter()
    left_out: dict[tuple[str, str, str], int] = {}
    for (how, _), result in last.items():
        for name in result["cases"]:
            counts[how, shape_of({"name": name}), "equal" if name not in result["differ"] else "differ"] += 1
        left_out.update({(how, shape, reason): count for shape, reason, count in result["left_out"]})
    lines = ["| shape |" + "".join(f" {how} | equal |" for how in ways) + " left out |"]
    lines.append("|---|" + "--:|--:|" * len(ways) + "---|")
    for shape in dict.fromkeys(shape for _, shape, _ in [*counts, *left_out]):
        row = f"| `{shape}` |"
        for how in ways:
            equal, differ = counts[how, shape, "equal"], counts[how, shape, "differ"]
            row += f" {equal + differ} | {equal} |"
        reasons = [f"{how}, {count}: {reason}" for (how, of, reason), count in left_out.items() if of == shape]
        lines.append(f"{row} {'; '.join(reasons) or '–'} |")
    for how in ways:
        played = [result for result in last.values() if result["how"] == how]
        records, seconds = (sum(result[of] for result in played) for of in ("records", "seconds"))
        lines.append(f"\n{how}: {len(played)} applications, {records} records in their topics, {seconds:.0f} s")
    return "\n".join(lines)
