"""The committed page is what its sources give, and is small."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

BUNDLE = ROOT / "api" / "page" / "static"
LARGEST_KB = 150


@pytest.mark.xdist_group("page")
def test_the_committed_page_is_what_its_sources_give(tmp_path: Path) -> None:
    # Installs the packages if need be: this test is not skipped.
    built = subprocess.run(
        [sys.executable, str(ROOT / "requirements" / "page.py"), "build", "--into", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    committed = {file.name: file.read_bytes() for file in BUNDLE.iterdir()}
    assert made.keys() == committed.keys()
    differing = [name for name in made if made[name] != committed[name]]
    assert differing == [], "run `make page` and commit what it builds"


def test_the_page_is_small() -> None:
    sizes = {file.name: len(gzip.compress(file.read_bytes(), 9, mtime=0)) for file in BUNDLE.iterdir()}
    assert sum(sizes.values()) < LARGEST_KB * 1_000, sizes


def test_the_page_holds_no_script_and_no_style_in_its_markup_and_names_no_other_site() -> None:
    html = (BUNDLE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=\"page/page\.js\")", html) == []
    assert "<style" not in html
    assert " style=" not in html
    addresses = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert set(addresses) == {"page/page.js", "page/page.css", "page/favicon.svg"}


def test_the_page_has_the_licences_of_the_packages_in_it() -> None:
    packages = json.loads((ROOT / "page" / "package.json").read_text())["dependencies"]
    script = (BUNDLE / "page.js").read_text()
    for package, version in packages.items():
        assert f"{package} {version}\n" in script
    assert script.count("Permission is hereby granted, free of charge") >= len(packages)


def test_the_lock_of_the_page_is_hashed_and_says_not_where_its_packages_are() -> None:
    lock = json.loads((ROOT / "page" / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert len(packages) > 20
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if "integrity" not in package] == []
