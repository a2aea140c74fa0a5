"""The page of the examples: each file of ``examples/`` with its purpose, and with its results if a test has kept them.

A new example appears by itself. The first paragraph of its docstring is its purpose. Its test keeps its results in
``examples/outputs/``, in a file of the same name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docsite.repository_links import ROOT, SOURCES

EXAMPLES = ROOT / "examples"
HEAD = """# Examples

To run an example in a clone of the repository, create the topics that it names, and start it there:

```sh
make environment && . .venv/bin/activate    # once
penstock broker start
penstock topic create payments payments-once
penstock run examples.payments_once:app
```

In a second terminal, send a record, and read the results. `--app` decodes them. What comes from a table, such as a
count, comes with a commit: every 30 s, and after twice that time if it went through a repartition topic
([`commit.interval.ms`](CONFIGURATION.md)). Some examples use the same names of topics, such as `orders`, for records of
another format: delete these topics (`penstock topic delete`) before you run the next one.

```sh
echo 'ada={"request":"r-1","cents":500}' | penstock topic send payments --key-separator = --value json
penstock topic read payments-once --app examples.payments_once:app --keys
```

Each example is one file. A test runs it, and compares its results with those shown here. In the results a line with a
time is a record that goes in: its topic, its key, its value. Lines with an arrow are the results that come out at once.
The [tutorial](TUTORIAL.md) has further programs.
"""


def programs() -> list[Path]:
    """Returns the files of the examples, by name."""
    return sorted(path for path in EXAMPLES.glob("*.py") if path.name != "__init__.py")


def pages() -> dict[str, str]:
    """Returns the text of the page by its name."""
    return {"EXAMPLES.md": HEAD + "".join(part for path in programs() for part in _section(path))}


def shown() -> list[str]:
    """Returns the files to which the page links."""
    return [path.relative_to(ROOT).as_posix() for path in programs()]


def _section(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    purpose, _, more = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")
    yield f"\n## {path.stem.replace('_', ' ').capitalize()}\n\n{purpose}\n\n"
    if more:
        yield f"{more}\n\n"
    yield f"[`{name}`]({SOURCES}/{name}.md)\n"
    kept = EXAMPLES / "outputs" / f"{path.stem}.txt"
    if kept.exists():
        yield f"\n```\n{kept.read_text()}```\n"
