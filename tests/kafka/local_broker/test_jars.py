"""The cache of jars: whole or not there, fetched once, repaired when broken."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs
import pytest

from penstock.common.errors import LocalBrokerError
from penstock.kafka.local_broker import jars
from tests.waiting import PATIENCE_S

COORDINATES = ["org.example:one:1.0"]


class FakeIvy:
    """Stands in for the fetch: writes two jars, slowly enough that others come meanwhile, and breaks off on demand."""

    def __init__(self) -> None:
        self.runs = 0
        self.break_off = False
        self.content = b"right"
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, coordinates: Sequence[str], name: str, work: Path, target: Path) -> None:
        self.runs += 1
        target.mkdir()
        (target / "one-1.0.jar").write_bytes(self.content)
        if self.break_off:
            raise KeyboardInterrupt
        assert self.gate.wait(PATIENCE_S)
        (target / "two-2.0.jar").write_bytes(self.content)


@pytest.fixture
def ivy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeIvy:
    fake = FakeIvy()
    monkeypatch.setattr(jars, "_run_ivy", fake)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    return fake


def test_a_set_is_fetched_once_and_then_taken_from_the_cache(ivy: FakeIvy) -> None:
    first = jars.resolve(COORDINATES, "example")
    assert [jar.name for jar in first] == ["one-1.0.jar", "two-2.0.jar"]
    assert jars.resolve(COORDINATES, "example") == first
    assert ivy.runs == 1


def test_other_versions_are_another_set(ivy: FakeIvy) -> None:
    old = jars.resolve(COORDINATES, "example")
    new = jars.resolve(["org.example:one:2.0"], "example")
    assert old[0].parent != new[0].parent
    assert ivy.runs == 2


@pytest.mark.parametrize("damage", ["changed", "shortened", "removed", "added", "manifest"])
def test_a_damaged_set_is_fetched_again(ivy: FakeIvy, damage: str) -> None:
    folder = jars.resolve(COORDINATES, "example")[0].parent
    match damage:
        case "changed":
            (folder / "one-1.0.jar").write_bytes(b"wrong")
        case "shortened":
            (folder / "one-1.0.jar").write_bytes(b"")
        case "removed":
            (folder / "two-2.0.jar").unlink()
        case "added":
            (folder / "three-3.0.jar").write_bytes(b"stranger")
        case "manifest":
            (folder / "manifest.json").write_text('{"one-1.0.jar":')
    again = jars.resolve(COORDINATES, "example")
    assert [jar.read_bytes() for jar in again] == [b"right", b"right"]
    assert ivy.runs == 2


def test_an_interrupted_fetch_leaves_nothing_and_the_next_one_succeeds(ivy: FakeIvy, tmp_path: Path) -> None:
    ivy.break_off = True
    with pytest.raises(KeyboardInterrupt):
        jars.resolve(COORDINATES, "example")
    assert not list((tmp_path / "penstock" / "jars").rglob("*.jar"))
    ivy.break_off = False
    assert len(jars.resolve(COORDINATES, "example")) == 2


def test_files_left_behind_by_a_killed_download_are_removed(ivy: FakeIvy, tmp_path: Path) -> None:
    folder = jars.resolve(COORDINATES, "example")[0].parent
    left_over = folder.with_name(f"{folder.name}.partial-abc")
    left_over.mkdir()
    (left_over / "half.jar").write_bytes(b"ha")
    (folder / "one-1.0.jar").unlink()
    jars.resolve(COORDINATES, "example")
    assert not left_over.exists()


def test_two_that_want_the_same_set_at_once_fetch_it_once(ivy: FakeIvy) -> None:
    ivy.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(jars.resolve, COORDINATES, "example") for _ in range(2)]
        ivy.gate.set()
        results = [future.result(timeout=PATIENCE_S) for future in both]
    assert results[0] == results[1]
    assert len(results[0]) == 2
    assert ivy.runs == 1


def test_a_jar_that_is_not_the_pinned_one_is_refused_by_name(ivy: FakeIvy, tmp_path: Path) -> None:
    pinned = {jar.name: "0" * 64 for jar in jars.resolve(COORDINATES, "example")}
    ivy.content = b"forged"
    with pytest.raises(LocalBrokerError, match=r"differ from the pinned ones: one-1\.0\.jar, two-2\.0\.jar"):
        jars.resolve(["org.example:one:3.0"], "example", pinned)


def test_a_real_library_arrives_through_ivy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    found = jars.resolve(["net.sf.jopt-simple:jopt-simple:5.0.4"], "jopt-simple")
    assert [jar.name for jar in found] == ["jopt-simple-5.0.4.jar"]
    lines = (Path(jars.__file__).with_name("broker_jars.sha256")).read_text().splitlines()
    pinned = {name: digest for digest, name in (line.split() for line in lines)}
    assert jars._digests(found[0].parent)["jopt-simple-5.0.4.jar"] == pinned["jopt-simple-5.0.4.jar"]


def test_a_library_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setattr(jars, "_ATTEMPTS", 1)
    with pytest.raises(LocalBrokerError, match="no-such-library"):
        jars.resolve(["net.sf.jopt-simple:no-such-library:1.0"], "nothing")


def test_a_mirror_is_asked_in_place_of_the_public_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = tmp_path / "mirror" / "org" / "example" / "one" / "1.0"
    files.mkdir(parents=True)
    pom = "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
    (files / "one-1.0.pom").write_text(f"{pom}<artifactId>one</artifactId><version>1.0</version></project>")
    (files / "one-1.0.jar").write_bytes(b"PK")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    monkeypatch.setenv(jars.MIRROR, (tmp_path / "mirror").as_uri())
    (jar,) = jars.resolve(COORDINATES, "example")
    assert (jar.name, jar.read_bytes()) == ("one-1.0.jar", b"PK")
    with pytest.raises(LocalBrokerError, match=r"They come from file:.*mirror \(PENSTOCK_MAVEN_MIRROR\)"):
        jars.resolve(["org.example:two:1.0"], "other")


def test_a_classifier_asks_for_another_jar_of_the_artifact_beside_its_main_one() -> None:
    module = jars._ivy_module(["org.example:one:1.0", "org.example:two:1.0:test"])
    one, two = module.split('name="two"', 1)
    assert "artifact" not in one
    assert '<artifact name="two" ext="jar"/>' in two
    assert '<artifact name="two" ext="jar" m:classifier="test"/>' in two
