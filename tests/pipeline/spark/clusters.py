"""A standalone cluster of Spark on loopback, and a Python for its executors that has neither penstock nor Ray."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from penstock.kafka.local_broker.broker import free_port
from penstock.pipeline.spark.java_for_spark import java_home
from tests.waiting import PATIENCE_S, eventually

HOST = "127.0.0.1"
LOOPBACK = ("--conf", f"spark.driver.host={HOST}", "--conf", f"spark.driver.bindAddress={HOST}")
SMALL = ("--conf", "spark.executor.memory=512m")


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def executors_python(folder: Path, without: Collection[str] = ()) -> Path:
    """Returns a Python with the packages of this one, except penstock, Ray and those ``without``."""
    venv.create(folder, symlinks=True, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    left_out = ("penstock", "_penstock", "ray", *without)
    for package in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if package.suffix != ".pth" and not package.name.startswith(left_out):
            (site / package.name).symlink_to(package)
    return folder / "bin" / "python"


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[str]:
    """Yields the master URL of a cluster whose workers have one core each."""
    port = free_port()
    url = f"spark://{HOST}:{port}"
    at = ("--host", HOST, "--webui-port", "0")
    with ExitStack() as processes:
        processes.enter_context(_process(folder, "master.Master", *at, "--port", str(port)))
        eventually(lambda: _answers(port), "the master answers", PATIENCE_S)
        for number in range(workers):
            work = ("--work-dir", str(folder / f"worker-{number}"), "--cores", "1", "--memory", "600m")
            processes.enter_context(_process(folder, "worker.Worker", *at, *work, url))
        yield url


def run_penstock(
    folder: Path, *arguments: str, submit: tuple[str, ...] | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command of penstock in ``folder``: itself, or by ``spark-submit`` with the options ``submit``."""
    command = [str(Path(sys.executable).with_name("penstock"))]
    variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    if submit is not None:
        (folder / "driver.py").write_text("from penstock.cli.main import main\n\nmain()\n")
        command = [str(spark_home() / "bin" / "spark-submit"), *submit, "driver.py"]
        variables |= {"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=variables | dict(environment or {}), capture_output=True, text=True
    )


@contextmanager
def _process(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    home = spark_home()
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _answers(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return tried.connect_ex((HOST, port)) == 0
