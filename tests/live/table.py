"""The table of a long run, as it stands in docs/PARITY.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def table(results: Sequence[dict[str, Any]]) -> str:
    """One row for each shape and way of playing. A bunch that was played twice counts as it was played last."""
    last = {(result["how"], result["bunch"]): result for result in results}
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in last.values():
        rows.setdefault((result["how"], result["shape"]), []).append(result)
    lines = ["| how | shape | cases | equal | records | left out | seconds |", "|---|---|--:|--:|--:|---|--:|"]
    for (how, shape), of_shape in rows.items():
        cases = sum(result["cases"] for result in of_shape)
        differ = sum(len(result["differ"]) for result in of_shape)
        records = sum(result["records"] for result in of_shape)
        left_out = Counter(of_shape[0]["left_out"])
        reasons = "; ".join(f"{count}: {reason}" for reason, count in left_out.items()) or "–"
        seconds = sum(result["seconds"] for result in of_shape)
        lines.append(f"| {how} | `{shape}` | {cases} | {cases - differ} | {records} | {reasons} | {seconds:.0f} |")
    return "\n".join(lines)
