"""Asks the archive of ``page_views.py`` by DuckDB alone, without Kafka and penstock: the views of each region.

``python page_views_report.py archive``
"""

from __future__ import annotations

import sys

import duckdb

# If a run was killed, or files were merged, the manifests name the files to read: docs/ARCHIVE.md.
QUERY = """
WITH profiles AS (
    SELECT key, arg_max(json_extract_string(decode(value), '$.region'), "offset") AS region
    FROM read_parquet($archive || '/profiles/*/*.parquet') GROUP BY key
)
SELECT region, count(*) AS views, sum(json_extract(decode(value), '$.seconds')::INT) AS seconds
FROM read_parquet($archive || '/page-views/*/*.parquet') JOIN profiles USING (key)
GROUP BY region ORDER BY region
"""


def report(archive: str) -> list[tuple[str, int, int]]:
    """Returns the number of views and the seconds of each region."""
    return duckdb.execute(QUERY, {"archive": archive}).fetchall()


if __name__ == "__main__":
    print(QUERY)
    for region, views, seconds in report(sys.argv[1]):
        print(f"{region:6}{views:>10,} views{seconds:>14,} s")
