"""The reference: pages that are made from the docstrings of the public names.

mkdocstrings reads the docstrings; these pages only group them.
"""

from __future__ import annotations

import ast
from collections import defaultdict

from docsite.repository_links import ROOT

TITLES = {
    "application": "Applications",
    "dsl": "Streams and tables",
    "options": "Options and windows",
    "processors": "Processors",
    "stores": "Stores",
    "queries": "Queries",
    "serdes": "Serdes",
    "records": "Records, handlers, listeners",
    "errors": "Errors",
    "testing": "Tests without a broker",
}
"""The pages, by the names of their files."""
PREFIXES = {
    "penstock.": "records",
    "penstock.api.": "application",
    "penstock.cli.": "application",
    "penstock.cluster.": "application",
    "penstock.cluster.queries.": "queries",
    "penstock.common.": "records",
    "penstock.common.errors.": "errors",
    "penstock.common.offset_resets.": "options",
    "penstock.common.position.": "queries",
    "penstock.common.serdes.": "serdes",
    "penstock.common.windowed_serdes.": "serdes",
    "penstock.common.windows.": "options",
    "penstock.registry.": "serdes",
    "penstock.state.": "stores",
    "penstock.state.queries.": "queries",
    "penstock.state.versioned.queries.": "queries",
    "penstock.state.windowed.queries.": "queries",
    "penstock.testing.": "testing",
    "penstock.topology.": "dsl",
    "penstock.topology.options.": "options",
    "penstock.topology.processor_api.": "processors",
}
"""The page of the public names of each module; the longest prefix counts."""


def public_names() -> dict[str, str]:
    """Returns the full name of each public name of ``penstock``, such as ``penstock.common.ids.TaskId``."""
    tree = ast.parse((ROOT / "penstock" / "__init__.py").read_text())
    imported: dict[str, str] = {}
    names: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str() as module, names=aliases):
                imported |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                names = ast.literal_eval(value)
    return {name: imported[name] for name in names if name in imported}


def pages() -> dict[str, str]:
    """Returns the text of each page by its name."""
    grouped: dict[str, list[str]] = defaultdict(list)
    for name, path in sorted(public_names().items(), key=lambda each: each[0].casefold()):
        longest = max((prefix for prefix in PREFIXES if path.startswith(prefix)), key=len)
        grouped[PREFIXES[longest]].append(_entry(name, path))
    return {f"reference/{page}.md": f"# {TITLES[page]}\n\n" + "\n".join(entries) for page, entries in grouped.items()}


def _entry(name: str, path: str) -> str:
    if name == path.rpartition(".")[2]:
        return f"::: {path}\n"
    return f"::: {path}\n    options:\n      heading: {name}\n      toc_label: {name}\n"
