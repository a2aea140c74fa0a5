"""Commands find an application in any Ray cluster in which it runs, or report within seconds why they cannot."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from ray.exceptions import GetTimeoutError

from penstock.cluster.client import control, starting
from penstock.cluster.ray_cluster import connections, ray_clusters
from penstock.cluster.ray_cluster.ray_clusters import RayCluster
from penstock.cluster.ray_cluster.ray_versions import VERSION
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.errors import ApplicationStateError, ConfigError
from tests.ports import closed_port
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.submission

ROOT = Path(__file__).parents[2]
# A Ray cluster of its own with a coordinator that only reports that it runs; it ends when its standard input does.
HOLDER = """
import sys, ray
from penstock.cluster.status import ApplicationState, ApplicationStatus

@ray.remote(num_cpus=0)
class Coordinator:
    def __init__(self, application_id):
        self.application_id = application_id
    def status(self):
        return ApplicationStatus(self.application_id, ApplicationState.RUNNING, 1, (), {})

ray.init("local", num_cpus=1, namespace="penstock", include_dashboard=False, log_to_driver=False,
         object_store_memory=100_000_000)
name = f"penstock/{sys.argv[1]}/coordinator"
coordinator = Coordinator.options(name=name, lifetime="detached").remote(sys.argv[1])
ray.get(coordinator.status.remote())
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Returns the environment of a new shell, without what Ray sets in the process that starts it."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return {**inherited, "HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


@contextmanager
def ray_with(application_id: str, home: Path) -> Iterator[str]:
    """Runs a Ray cluster with an application; yields its address."""
    command = [sys.executable, "-c", HOLDER, application_id]
    with subprocess.Popen(
        command, env=environment(home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user, in which Ray keeps its token."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def two(home: Path) -> Iterator[dict[str, str]]:
    """Yields two clusters of one user on this machine, as application to address."""
    with ray_with("one", home) as one, ray_with("two", home) as two:
        yield {"one": one, "two": two}


def penstock(home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", *arguments]
    return subprocess.run(
        command, env=environment(home, **env), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def once_answered(clusters: Iterable[str], home: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Returns the outcome of a command that these clusters have answered. On a busy machine an answer may take longer
    than the 8 s that a command waits for each of them."""
    done: list[subprocess.CompletedProcess[str]] = []
    late = [f"no Ray cluster answers at {address}: nothing came within" for address in clusters]

    def answered() -> bool:
        done.append(penstock(home, *arguments, **env))
        return not any(each in done[-1].stdout + done[-1].stderr for each in late)

    eventually(answered, f"the clusters at {', '.join(clusters)} answer")
    return done[-1]


@pytest.mark.long
def test_each_application_is_found_in_its_cluster_with_the_token_that_lies_in_the_users_home(
    two: dict[str, str], home: Path
) -> None:
    shown = once_answered(two.values(), home, "status", "one")
    assert shown.returncode == 0, shown.stderr
    assert "one  RUNNING" in shown.stdout
    other = once_answered(two.values(), home, "status", "two", "--json")
    assert json.loads(other.stdout)["application_id"] == "two"


def test_all_applications_are_listed_with_their_clusters(two: dict[str, str], home: Path) -> None:
    def shown(*form: str) -> str:  # a cluster that does not answer within 8 s is left out
        listed = penstock(home, "status", *form)
        print(listed.stdout, listed.stderr)
        return "" if listed.returncode else listed.stdout

    def in_table() -> bool:
        lines = shown().splitlines()
        return all(any(name in line and address in line for line in lines) for name, address in two.items())

    def in_document() -> bool:
        documents = json.loads(shown("--json") or "[]")
        return {each["application_id"]: each["ray_address"] for each in documents}.items() >= two.items()

    eventually(in_table, "both are listed")
    eventually(in_document, "both are listed as JSON")


@pytest.mark.long
def test_ray_address_is_the_only_cluster_that_is_looked_into(two: dict[str, str], home: Path) -> None:
    assert once_answered(two.values(), home, "status", "one", RAY_ADDRESS=two["one"]).returncode == 0
    elsewhere = once_answered(two.values(), home, "status", "one", RAY_ADDRESS=two["two"])
    assert elsewhere.returncode == 1
    assert elsewhere.stderr == (
        f"application 'one' does not run in the Ray cluster at {two['two']}; applications there: 'two'\n"
    )


def test_an_error_about_an_application_that_does_not_run_lists_those_that_do(two: dict[str, str], home: Path) -> None:
    absent = once_answered(two.values(), home, "stop", "three")
    assert absent.returncode == 1
    assert "'three' does not run" in absent.stderr
    assert "'one', 'two'" in absent.stderr
    assert "Traceback" not in absent.stderr


@pytest.mark.skipif(VERSION < (2, 52), reason="this Ray has no tokens")
def test_a_command_without_the_token_prints_what_to_set(two: dict[str, str], tmp_path: Path) -> None:
    one = {"RAY_ADDRESS": two["one"]}
    refused = once_answered(two.values(), tmp_path, "status", "one", **one)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"cannot connect to RAY_ADDRESS={two['one']}: the Ray cluster at {two['one']} asks"
    )
    assert "set RAY_AUTH_MODE=token" in refused.stderr
    wrong = {**one, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "no"}
    with_mode = once_answered(two.values(), tmp_path, "status", "one", **wrong)
    assert with_mode.returncode == 1
    assert "put its token into ~/.ray/auth_token here" in with_mode.stderr


@pytest.fixture
def address() -> Iterator[str]:
    """Yields an address at which nobody listens while the test lasts."""
    with closed_port() as port:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("command", [["status", "x"], ["stop", "x"], ["query", "x", "s", "k"], ["status"]])
@pytest.mark.long
def test_an_address_where_nobody_listens_is_named(command: list[str], address: str, tmp_path: Path) -> None:
    failed = once_answered([address], tmp_path, *command, RAY_ADDRESS=address)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"cannot connect to RAY_ADDRESS={address}: no Ray cluster answers at {address}")
    assert failed.stderr.count("\n") == 1


def test_an_address_that_takes_connections_and_never_answers_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(ray_clusters, "ANSWER_S", 2.0)
        began = time.monotonic()
        found = ray_clusters.probe(address)
        # Not a measurement: Ray itself tries for minutes.
        assert time.monotonic() - began < 30
    assert found.problem == f"no Ray cluster answers at {address}: nothing came within 2 s"


@pytest.mark.parametrize("address", ["http://127.0.0.1:8265", "ray://head:10001", "head"])
def test_an_address_that_is_not_a_clusters_is_refused_with_what_is_wanted(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match="penstock needs host:port"):
        ray_clusters.clusters()


@pytest.fixture
def disconnected(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Makes ``connect_to`` find the given clusters instead of the machine's; returns the addresses it connects to."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("penstock.cluster.ray_cluster.connections.ray.is_initialized", lambda: False)

    def connect_to(application_id: str, *found: RayCluster) -> list[str]:
        connected: list[str] = []
        monkeypatch.setattr(connections, "clusters", lambda: list(found))
        monkeypatch.setattr(
            connections, "connect_to_cluster", lambda cluster, log_to_driver: connected.append(cluster.address)
        )
        connections.connect_to(application_id)
        return connected

    return connect_to


def test_a_cluster_that_cannot_be_asked_hides_no_application_of_another(disconnected: Callable[..., list[str]]) -> None:
    foreign = RayCluster("h:1", problem="the Ray cluster at h:1 asks for a token")
    assert disconnected("app", foreign, RayCluster("h:2", ("app",))) == ["h:2"]
    with pytest.raises(ApplicationStateError, match=r"'app' does not run.*at h:2.*; the Ray cluster at h:1 asks"):
        disconnected("app", foreign, RayCluster("h:2", ("other",)))
    with pytest.raises(ApplicationStateError, match=r"no application was found: .*h:1 asks for a token.*RAY_A"):
        disconnected("app", foreign)


def test_an_application_id_that_runs_twice_is_not_guessed(disconnected: Callable[..., list[str]]) -> None:
    with pytest.raises(ApplicationStateError, match="several Ray clusters: h:1 and h:2; choose one by RAY_ADDRESS"):
        disconnected("app", RayCluster("h:1", ("app",)), RayCluster("h:2", ("app",)))


def test_no_cluster_at_all_is_reported(disconnected: Callable[..., list[str]]) -> None:
    with pytest.raises(ApplicationStateError, match="no Ray cluster runs on this machine"):
        disconnected("app")


def test_a_start_goes_to_no_other_cluster_than_ray_address_names(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr("penstock.cluster.ray_cluster.connections.ray.is_initialized", lambda: False)
    monkeypatch.setattr(
        "penstock.cluster.ray_cluster.connections.ray.init", lambda *_, **__: pytest.fail("Ray was started")
    )
    with pytest.raises(ApplicationStateError, match=f"cannot connect to RAY_ADDRESS={address}"):
        starting.connect("app")


@pytest.fixture
def node_that_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Start a process that looks like a Ray node of a cluster; this user has a token."""

    class Loader:
        @staticmethod
        def instance() -> type[Loader]:
            return Loader

        @staticmethod
        def has_token(ignore_auth_mode: bool) -> bool:
            return ignore_auth_mode

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    # Ray before 2.52 has none.
    monkeypatch.setattr(ray_clusters._RAYLET, "AuthenticationTokenLoader", Loader, raising=False)
    with ExitStack() as started:

        def start(address: str) -> None:
            command = ["raylet", "-c", "echo up; read -r end", f"--gcs-address={address}"]
            node = subprocess.Popen(command, executable="/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            started.enter_context(node)
            assert node.stdin is not None
            assert node.stdout is not None
            assert node.stdout.readline() == b"up\n"
            started.callback(node.stdin.close)

        yield start


def test_the_token_is_shown_unasked_to_this_users_own_cluster(node_that_names: Callable[[str], None]) -> None:
    assert not ray_clusters._may_show_token("127.0.0.1:7")
    node_that_names("127.0.0.1:7")
    assert ray_clusters._may_show_token("127.0.0.1:7")


def test_the_token_is_not_shown_to_an_address_that_a_process_of_another_user_names(
    node_that_names: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    node_that_names("127.0.0.1:7")
    assert "127.0.0.1:7" in ray_clusters._local(), "Ray itself takes it for a cluster"
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert not ray_clusters._may_show_token("127.0.0.1:7")


@pytest.mark.parametrize("address", ["192.0.2.1:7", "[2001:db8::1]:7", "127.0.0.1:x"])
def test_the_token_is_not_shown_unasked_to_another_machine(
    node_that_names: Callable[[str], None], address: str
) -> None:
    node_that_names(address)
    assert address in ray_clusters._local()
    assert not ray_clusters._may_show_token(address)


@pytest.fixture
def start_app(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Starts ``app`` without a ``ray start``, with these clusters on the machine; returns what Ray connects to."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("penstock.cluster.ray_cluster.connections.ray.is_initialized", lambda: False)
    monkeypatch.setattr(connections, "started_here", lambda: None)
    monkeypatch.setattr(control, "find_coordinator", lambda _: "coordinator")

    def connect(state: ApplicationState, *found: RayCluster, take_over: bool = False) -> list[str]:
        connected: list[str] = []
        monkeypatch.setattr(connections, "clusters", lambda: list(found))
        monkeypatch.setattr(control, "status_of", lambda _: ApplicationStatus("app", state, 1, (), {}))
        monkeypatch.setattr(control, "end_actors", lambda name, _: connected.append(f"{name} is ended"))
        monkeypatch.setattr(
            "penstock.cluster.ray_cluster.connections.ray.init", lambda address, **_: connected.append(address)
        )
        monkeypatch.setattr("penstock.cluster.ray_cluster.connections.ray.shutdown", lambda: connected.append("left"))
        monkeypatch.setattr(starting, "stop_application", lambda name, _: connected.append(f"{name} is stopped"))
        starting.connect("app", take_over)
        return connected

    return connect


def test_an_application_that_runs_in_another_cluster_of_this_machine_is_not_started_in_a_new_one(
    start_app: Callable[..., list[str]],
) -> None:
    with pytest.raises(ApplicationStateError, match=r"already running in the Ray cluster at h:2 .*penstock stop app"):
        start_app(ApplicationState.RUNNING, RayCluster("h:1", ("other",)), RayCluster("h:2", ("app",)))


def test_the_refusal_names_the_flag_that_ends_the_other(start_app: Callable[..., list[str]]) -> None:
    with pytest.raises(ApplicationStateError, match=r"penstock deploy', end it by --take-over \(start\(take_over=True"):
        start_app(ApplicationState.RUNNING, RayCluster("h:2", ("app",)))


def test_a_start_that_takes_over_first_stops_the_application_in_each_cluster_of_this_machine(
    start_app: Callable[..., list[str]],
) -> None:
    found = RayCluster("h:1", ("other",)), RayCluster("h:2", ("app",)), RayCluster("h:3", ("app", "other"))
    assert start_app(ApplicationState.RUNNING, *found, take_over=True) == [
        *("h:2", "app is stopped", "left", "h:3", "app is stopped", "left", "local")
    ]


def test_a_ray_whose_daemons_do_not_start_in_time_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.")  # Ray has no narrower one

    monkeypatch.setattr("penstock.cluster.ray_cluster.connections.ray.init", late)
    with pytest.raises(ApplicationStateError, match=r"Ray did not start .*: The current node .* startup\. Its logs"):
        connections.start_cluster(log_to_driver=False, logging_level=logging.ERROR)


DRAINED = ApplicationStatus("app", ApplicationState.NOT_RUNNING, 1, (), {})


@pytest.mark.parametrize(
    ("answer", "warned"),
    [
        (DRAINED, ""),
        (None, "was ended without a commit"),
        (ApplicationStateError("its coordinator was ended by force"), "was ended by force"),
        (GetTimeoutError("the cluster has ended"), "the cluster has ended"),
    ],
)
def test_an_application_that_is_taken_over_need_not_stop_cleanly(
    start_app: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: ApplicationStatus | Exception | None,
    warned: str,
) -> None:
    def stop_application(application_id: str, timeout_s: float) -> ApplicationStatus | None:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert start_app(ApplicationState.RUNNING) == ["local"]
    monkeypatch.setattr(starting, "stop_application", stop_application)
    monkeypatch.setattr(connections, "clusters", lambda: [RayCluster("h:2", ("app",))])
    starting.connect("app", take_over=True)
    message = capsys.readouterr().err
    assert "stopped where it runs" in message
    assert ("warning" in message) == bool(warned)
    assert warned in message


def test_an_application_that_has_ended_in_another_cluster_is_cleared_away_and_started(
    start_app: Callable[..., list[str]],
) -> None:
    assert start_app(ApplicationState.ERROR, RayCluster("h:2", ("app",))) == ["h:2", "app is ended", "left", "local"]


def test_a_cluster_that_cannot_be_asked_or_has_others_lets_an_application_start(
    start_app: Callable[..., list[str]],
) -> None:
    foreign = RayCluster("h:1", problem="the Ray cluster at h:1 asks for a token")
    assert start_app(ApplicationState.RUNNING, foreign, RayCluster("h:2", ("other",))) == ["local"]


def test_ray_gives_no_advice_on_the_token_of_a_cluster_that_ends_with_the_process(
    start_app: Callable[..., list[str]],
) -> None:
    rays = logging.getLogger("ray._private.authentication.authentication_token_setup")
    rays.setLevel(logging.NOTSET)
    start_app(ApplicationState.RUNNING)
    assert not rays.isEnabledFor(logging.WARNING)


def test_a_cluster_of_another_version_of_python_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(*_: object, **__: object) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.12.1\n"
            "This process on 127.0.0.1:1 was started with:\n    Ray: 2.44.0\n    Python: 3.11.7\n"
        )

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(ApplicationStateError, match=r"Ray: 2\.60\.0 Python: 3\.12\.1 .*Ray: 2\.44\.0") as refused:
        connections.connect_to_cluster(RayCluster("127.0.0.1:1", ()), log_to_driver=False)
    assert "cannot connect to the Ray cluster at 127.0.0.1:1: " in str(refused.value)
