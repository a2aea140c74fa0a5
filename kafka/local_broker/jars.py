"""Java libraries from Maven Central, fetched by the Ivy jar that PySpark ships; no Maven is needed.

``resolve`` keeps each set of libraries in a folder of its own in the user's cache, with a manifest of the SHA-256
of every jar. A folder appears under its final name only when it is complete, so an interrupted fetch leaves nothing
that would be taken for a result, and a file lock lets two processes that want the same set fetch it once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import platformdirs
from filelock import FileLock
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.common.errors import LocalBrokerError
from penstock.kafka.local_broker.java import find_java

KAFKA_VERSION = "4.3.1"
BROKER_COORDINATES = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)

_MANIFEST = "manifest.json"
_PARTIAL = ".partial-"
_ATTEMPTS = 3
_PINNED = Path(__file__).with_name("broker_jars.sha256")

MIRROR = "PENSTOCK_MAVEN_MIRROR"
"""The environment variable that names another repository in Maven's layout: a URL, which may begin with ``file:``."""

_MAVEN = "http://ant.apache.org/ivy/maven"
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"{root}/></resolvers>
</ivysettings>
"""


def broker_jars() -> list[Path]:
    """Returns the jars of the pinned Kafka broker, each checked against the digest in this repository."""
    lines = _PINNED.read_text().splitlines()
    pinned = {name: digest for digest, name in (line.split() for line in lines)}
    return resolve(BROKER_COORDINATES, f"kafka-{KAFKA_VERSION}", pinned)


def resolve(coordinates: Sequence[str], name: str, pinned: Mapping[str, str] | None = None) -> list[Path]:
    """Returns the jars of these Maven coordinates (``group:artifact:version``) and of their dependencies, by name. With
    a fourth part, a classifier, the artifact's jar of that classifier comes, too. With
    ``group:artifact:version:tar.gz:classifier`` it is that archive, alone.

    The first call fetches them, with a progress bar on standard error. Later calls take them from the cache after
    comparing every jar with its recorded SHA-256, and fetch them again if one is broken. ``name`` is the set's name in
    the folder and the progress bar. ``pinned`` maps the file names of the whole set to their expected SHA-256.
    Raises LocalBrokerError when a jar cannot be fetched or differs from the pinned one.
    """
    folder = _folder(coordinates, name)
    if not _is_whole(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if not _is_whole(folder):
                _fetch(coordinates, name, folder, pinned)
    return sorted(_fetched(folder))


def _fetched(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*") if file.name.endswith((".jar", ".tar.gz"))]


def _folder(coordinates: Sequence[str], name: str) -> Path:
    version_set = hashlib.sha256("\n".join(sorted(coordinates)).encode()).hexdigest()[:12]
    return platformdirs.user_cache_path("penstock") / "jars" / f"{name}-{version_set}"


def _is_whole(folder: Path) -> bool:
    """Returns True if the folder has exactly the jars of its manifest, each with its digest (50 MB take 0.1 s)."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    return bool(manifest == _digests(folder))


def _digests(folder: Path) -> dict[str, str]:
    found = {}
    for jar in sorted(_fetched(folder)):
        with jar.open("rb") as content:
            found[jar.name] = hashlib.file_digest(content, "sha256").hexdigest()
    return found


def _fetch(coordinates: Sequence[str], name: str, folder: Path, pinned: Mapping[str, str] | None) -> None:
    """Fetch into a temporary folder next to the final one and rename it. Called with the set's lock held."""
    for left_over in folder.parent.glob(f"{folder.name}{_PARTIAL}*"):
        shutil.rmtree(left_over)
    work = Path(tempfile.mkdtemp(prefix=f"{folder.name}{_PARTIAL}", dir=folder.parent))
    try:
        fresh = work / "jars"
        _run_ivy(coordinates, name, work, fresh)
        digests = _digests(fresh)
        _compare(digests, pinned, name)
        (fresh / _MANIFEST).write_text(json.dumps(digests, indent=1))
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _compare(digests: Mapping[str, str], pinned: Mapping[str, str] | None, name: str) -> None:
    if pinned is None or digests == pinned:
        return
    differing = sorted(jar for jar in digests.keys() | pinned.keys() if digests.get(jar) != pinned.get(jar))
    raise LocalBrokerError(
        f"The jars fetched for {name} differ from the pinned ones: {', '.join(differing)}. "
        "Check what is between this machine and the repository (a proxy, a mirror)."
    )


def _run_ivy(coordinates: Sequence[str], name: str, work: Path, target: Path) -> None:
    mirror = os.environ.get(MIRROR)
    root = f" root={quoteattr(mirror)}" if mirror else ""
    (work / "settings.xml").write_text(_SETTINGS.format(root=root))
    (work / "ivy.xml").write_text(_ivy_module(coordinates))
    java = find_java()
    command = [str(java.executable), *java.network_flags, "-jar", str(_ivy_jar())]
    command += ["-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache")]
    command += [
        "-retrieve",
        f"{target}/[artifact]-[revision](-[classifier]).[ext]",
        "-types",
        "jar",
        "bundle",
        "tar.gz",
    ]
    lines: list[str] = []
    for _ in range(_ATTEMPTS):
        # Ivy's cache keeps what an attempt has fetched, so the next attempt fetches only the rest.
        code, lines = _run_with_progress(command, name)
        if code == 0 and _fetched(target):
            return
    problems = [line for line in lines if "UNRESOLVED" in line or "not found" in line or "error" in line.lower()]
    raise LocalBrokerError(
        f"The jars of {name} could not be fetched: {' | '.join((problems or lines)[-3:])}. "
        + (f"They come from {mirror} ({MIRROR}): " if mirror else "They come from Maven Central: ")
        + f"check the network and try again, name a mirror with {MIRROR}, or copy the folder "
        f"{target.parent.parent} from a machine that has them."
    )


def _ivy_module(coordinates: Sequence[str]) -> str:
    lines = [
        f'<ivy-module version="2.0" xmlns:m="{_MAVEN}">',
        '  <info organisation="penstock" module="jars"/>',
        "  <dependencies>",
    ]
    for coordinate in coordinates:
        group, artifact, version, *more = coordinate.split(":")
        if len(more) == 2:
            extension, classifier = more
            lines += [
                f'    <dependency org="{group}" name="{artifact}" rev="{version}" transitive="false">',
                f'      <artifact name="{artifact}" type="{extension}" ext="{extension}" m:classifier="{classifier}"/>',
                "    </dependency>",
            ]
            continue
        # Without the mapping Ivy would also fetch optional, test and provided dependencies.
        lines.append(f'    <dependency org="{group}" name="{artifact}" rev="{version}" conf="default->default">')
        if more:
            lines.append(f'      <artifact name="{artifact}" ext="jar"/>')
        lines += [f'      <artifact name="{artifact}" ext="jar" m:classifier="{each}"/>' for each in more]
        lines.append("    </dependency>")
    return "\n".join([*lines, "  </dependencies>", "</ivy-module>", ""])


def _ivy_jar() -> Path:
    # Located, not imported: importing pyspark takes half a second and is the business of pipeline/.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LocalBrokerError(
            "The package pyspark, whose Ivy fetches the jars, is not installed: pip install 'penstock-streams[local]'."
        )
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise LocalBrokerError(
            "The installed pyspark ships no Ivy jar: pip install --force-reinstall 'penstock-streams[local]'."
        )
    return found[-1]


def _run_with_progress(command: Sequence[str], name: str) -> tuple[int, list[str]]:
    """Run Ivy and show how many modules it has found, then how many have arrived. Returns its exit code and output."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    lines: list[str] = []
    found = arrived = 0
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy,
    ):
        bar = progress.add_task(f"Finding the jars of {name}", total=None)
        assert ivy.stdout is not None
        try:
            for line in ivy.stdout:
                lines.append(line.strip())
                if line.startswith("\tfound "):
                    found += 1
                    progress.update(bar, completed=found)
                elif "[SUCCESSFUL ]" in line:
                    arrived += 1
                    progress.update(bar, description=f"Fetching the jars of {name}", completed=arrived, total=found)
        except BaseException:
            ivy.kill()
            raise
    return ivy.returncode, lines


if __name__ == "__main__":
    broker_jars()
