"""The allowed imports between the folders of the page's sources: the table of page/README.md, as data."""

from __future__ import annotations

import posixpath
import re
from graphlib import TopologicalSorter

import pytest

from tests.architecture.sources import ROOT

SOURCES = ROOT / "page" / "src"

BELOW_VIEWS = {"common", "server", "session"}

MAY_IMPORT: dict[str, set[str]] = {
    "common": set(),
    "server": {"common"},
    "session": {"common", "server"},
    "topology": BELOW_VIEWS,
    "overview": BELOW_VIEWS | {"topology"},
    "tasks": BELOW_VIEWS,
    "records": BELOW_VIEWS,
    "stores": BELOW_VIEWS | {"records"},
    "rollout": BELOW_VIEWS,
    "slow": BELOW_VIEWS | {"tasks", "topology"},
    "time": BELOW_VIEWS | {"overview", "topology"},
    "shell": BELOW_VIEWS | {"overview", "topology", "tasks", "stores", "time", "records", "slow", "rollout"},
    "style": set(),
    "": {"shell", "session"},
}
"""The folders that each may import. ``main.tsx``, which starts the page, is in none of them."""


def imported_by(module: str, text: str) -> list[str]:
    """Returns the modules of the page that this one imports, below ``page/src`` and without the ends of their names."""
    named = re.findall(r"""(?:from|import|import\()\s*["'](\.[^"']*)["']""", text)
    return [posixpath.normpath(posixpath.join(posixpath.dirname(module), name)) for name in named]


def modules() -> dict[str, list[str]]:
    """Returns all modules of the page with what they import, each relative to ``page/src``."""
    files = [file for file in sorted(SOURCES.rglob("*.ts*")) if not file.name.endswith(".d.ts")]
    named = {file.relative_to(SOURCES).with_suffix("").as_posix(): file for file in files}
    return {name: imported_by(name, file.read_text()) for name, file in named.items()}


def folder_of(module: str) -> str:
    return module.partition("/")[0] if "/" in module else ""


def test_every_folder_of_the_page_is_in_the_table_and_the_arrows_make_no_circle() -> None:
    assert {folder.name for folder in SOURCES.iterdir() if folder.is_dir()} == MAY_IMPORT.keys() - {""}
    assert set(TopologicalSorter(MAY_IMPORT).static_order()) == MAY_IMPORT.keys()


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_arrows_between_folders_of_the_page_point_one_way(folder: str) -> None:
    allowed = MAY_IMPORT[folder] | {folder}
    assert [
        f"{module} imports {found}"
        for module, imported in modules().items()
        for found in imported
        if folder_of(module) == folder and folder_of(found) not in allowed
    ] == []


def test_modules_of_the_page_import_each_other_in_no_circle() -> None:
    found = modules()
    assert set(TopologicalSorter(found).static_order()) - {"server/schema"} == found.keys()


def test_the_table_has_no_arrow_that_nothing_needs() -> None:
    found = modules()
    needed = {(folder_of(module), folder_of(other)) for module, imported in found.items() for other in imported}
    assert {(one, other) for one, others in MAY_IMPORT.items() for other in others - BELOW_VIEWS} <= needed


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ('import { a } from "../server/client";', ["server/client"]),
        ('import type { a } from "./b";', ["slow/b"]),
        ('import {\n  a,\n  type b,\n} from "../c/d";', ["c/d"]),
        ('export { a } from "./b";', ["slow/b"]),
        ('import "./b";', ["slow/b"]),
        ('const a = await import("../c/d");', ["c/d"]),
        ('import { signal } from "@preact/signals";', []),
    ],
)
def test_the_scanner_sees_every_way_to_import_a_module_of_the_page(text: str, imported: list[str]) -> None:
    assert imported_by("slow/slow", text) == imported
