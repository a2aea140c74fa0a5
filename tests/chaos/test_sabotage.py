"""Sabotage of files and connections takes effect, and passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.common.errors import StateStoreCorruptError
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.testing.chaos import sabotage
from penstock.testing.chaos.network import Network, Trouble
from penstock.testing.chaos.proxy import Proxy

HOLD = """
import sys
from pathlib import Path
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.state.key_value.store import KeyValueStoreBuilder
held = [RocksDBTaskStores(Path(path), [KeyValueStoreBuilder("a")]) for path in sys.argv[1:]]
print("open", flush=True)
sys.stdin.read()
"""
WRITE = """
import sys
from pathlib import Path
file = Path(sys.argv[1]).open("wb", buffering=0)
print("open", flush=True)
for line in sys.stdin:
    try:
        for _ in range(1024):
            file.write(bytes(1024))
        print("written", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


def test_the_databases_of_a_process_are_found_and_nobody_elses(tmp_path: Path) -> None:
    paths = [str(tmp_path / task / "rocksdb") for task in ("0_0", "0_1")]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert sabotage.open_databases(psutil.Process(process.pid)) == [Path(path) for path in paths]
        assert sabotage.open_databases(psutil.Process()) == []
        process.communicate()


def test_damage_changes_one_file_of_each_database_the_same_way_for_the_same_seed(tmp_path: Path) -> None:
    for name in ("first", "second"):
        for database in ("0_0", "0_1"):
            folder = tmp_path / name / database / "rocksdb"
            folder.mkdir(parents=True)
            for file in ("000007.sst", "000008.log", "MANIFEST-000004", "CURRENT"):
                (folder / file).write_bytes(bytes(1000))
    done = [sabotage.damage(sorted((tmp_path / name).glob("*/rocksdb")), 7) for name in ("first", "second")]
    assert done[0] == done[1]
    damaged = [file for file in (tmp_path / "first").rglob("*") if file.is_file() and any(file.read_bytes())]
    assert sorted(f"{file.parts[-3]}/{file.name}" for file in damaged) == sorted(done[0])
    assert len(damaged) == 2


def test_a_damaged_manifest_is_found_when_the_database_is_opened(tmp_path: Path) -> None:
    database = tmp_path / "rocksdb"
    stores = RocksDBTaskStores(database, [KeyValueStoreBuilder("a")])
    stores.close()
    for file in [*database.glob("*.log"), *database.glob("*.sst")]:
        file.unlink()
    assert sabotage.damage([database], 1)[0].startswith(f"{tmp_path.name}/MANIFEST")
    with pytest.raises(StateStoreCorruptError):
        RocksDBTaskStores(database, [KeyValueStoreBuilder("a")])


@pytest.mark.skipif(sys.platform != "linux", reason="no limit of another process can be set")
def test_a_process_that_has_no_room_fails_to_write_until_it_has_some_again(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(tmp_path / "file")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def write() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        process.stdout.readline()
        sabotage.fill_disk(psutil.Process(process.pid))
        assert write() == "File too large"
        sabotage.make_room(psutil.Process(process.pid))
        assert write() == "written"
        process.communicate()


def test_the_end_of_one_trouble_leaves_the_others() -> None:
    message: list[str] = []

    class Heard(Proxy):
        def heal(self) -> None:
            message.append("heal")

    def trouble(name: str) -> Trouble:
        return lambda _: message.append(name)

    network = Network([Heard(1)])
    first, second = trouble("first"), trouble("second")
    network.begin(first)
    network.begin(second)
    assert message == ["first", "second"]
    network.end(first)
    assert message == ["first", "second", "heal", "second"]
    network.heal()
    assert message[4:] == ["heal"]
