"""Makes the input of ``page_views.py``: profiles, and the page views of a day, as Parquet in the current folder.

``python page_views_data.py --views 150000`` writes ``profiles/``, ``views/morning.parquet`` (two thirds of the views)
and ``later/afternoon.parquet``. The day ends two hours ago; all else depends on the seed alone.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

SEED = 23
USERS = 5_000
REGIONS = ("north", "east", "south", "west")
PAGES = ("/", "/tea", "/coffee", "/cups", "/basket")
NAMES = ("Ada", "Bob", "Cem", "Dora", "Eve", "Finn", "Gül", "Hugo")
HOURS = 8


def make(folder: Path, views: int, begin: datetime) -> Counter[str]:
    """Write the files of a day that begins at ``begin``; returns the number of views of each region."""
    draw = random.Random(SEED)
    profiles = [
        {
            "user": f"user-{number}",
            "name": draw.choice(NAMES),
            "region": draw.choice(REGIONS),
            "since": begin - timedelta(hours=1),
        }
        for number in range(USERS)
    ]
    offsets_ms = sorted(draw.randrange(HOURS * 3_600_000) for _ in range(views))
    rows = [
        {
            "user": f"user-{draw.randrange(USERS)}",
            "page": draw.choice(PAGES),
            "seconds": draw.randrange(1, 60),
            "at": begin + timedelta(milliseconds=offset),
        }
        for offset in offsets_ms
    ]
    noon = views * 2 // 3
    for name, content in (
        ("profiles/profiles.parquet", profiles),
        ("views/morning.parquet", rows[:noon]),
        ("later/afternoon.parquet", rows[noon:]),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        parquet.write_table(pa.Table.from_pylist(content), folder / name)
        print(f"{name}: {len(content):,} rows")
    regions = {each["user"]: str(each["region"]) for each in profiles}
    return Counter(regions[row["user"]] for row in rows)


def main() -> None:
    """Read the options, and write the files."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--views", type=int, default=150_000)
    views = options.parse_args().views
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS + 2)
    for region, count in sorted(make(Path(), views, begin).items()):
        print(f"  views from the {region}: {count:,}")


if __name__ == "__main__":
    main()
