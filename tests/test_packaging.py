"""Wheel, source distribution and editable install follow the links of penstock/ and hold the whole package."""

from __future__ import annotations

import os
import platform
import re
import runpy
import subprocess
import sys
import sysconfig
import venv
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGES, ROOT

IMPORT_ALL = """
import importlib, sys
import penstock
for name in sys.argv[1:]:
    importlib.import_module(f"penstock.{name}")
print(penstock.__file__)
"""

PROGRAM = ROOT / "requirements" / "installed_program.py"

MODULES: list[str] = runpy.run_path(str(ROOT / "requirements" / "install.py"))["MODULES"]

pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", target, "-t", "wheel", "-t", "sdist", cwd=ROOT)
    return target


@pytest.fixture(scope="module")
def built_without_a_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel that a machine without a C compiler builds."""
    target = tmp_path_factory.mktemp("pure")
    build = (sys.executable, "-m", "hatchling", "build", "-d", target, "-t", "wheel")
    run(*build, cwd=ROOT, CC=str(target / "no-compiler"))
    return target


@pytest.fixture
def scratch_python(tmp_path: Path) -> Path:
    """The Python of a new environment that sees the libraries of this one, but not this one's editable penstock."""
    environment = tmp_path / "scratch"
    venv.create(environment, symlinks=True)
    paths = {"base": str(environment), "platbase": str(environment)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", paths))
    # A folder that is named in a .pth file is searched, but the .pth files that lie in it are not read.
    (site_packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin" / "python"


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    # With a PYTHONPATH of the caller, these programs might import this clone.
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env={**inherited, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def of_another_python(file: Path) -> bool:
    return file.suffix == ".so" and not file.name.endswith(sysconfig.get_config_var("EXT_SUFFIX"))


def expected_files() -> set[str]:
    """Returns what is in the package's folders, under its import path."""
    files = [file for folder in PACKAGES for file in (ROOT / folder).rglob("*") if file.is_file()]
    own = {file.relative_to(ROOT) for file in files if "__pycache__" not in file.parts and not of_another_python(file)}
    return {f"penstock/{file.as_posix()}" for file in own} | {"penstock/__init__.py", "penstock/py.typed"}


@pytest.mark.submission
def test_the_wheel_holds_every_file_once_and_imports_in_a_scratch_environment(
    built: Path, scratch_python: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    assert expected_files() <= set(names)
    assert {f"penstock/common/messages/{page.name}" for page in (ROOT / "docs" / "messages").glob("*.md")} <= set(names)
    assert not [name for name in names if not name.startswith(("penstock/", "penstock_streams-"))]
    install(scratch_python, wheel, cwd=tmp_path)
    imported_from = run(scratch_python, "-c", IMPORT_ALL, *PACKAGES, cwd=tmp_path)
    assert imported_from.startswith(str(scratch_python.parent.parent))


@pytest.mark.submission
@pytest.mark.parametrize("compiler", [True, False], ids=["with a compiler", "without a compiler"])
def test_a_wheel_installs_into_an_empty_environment_and_runs(
    built: Path, built_without_a_compiler: Path, scratch_python: Path, tmp_path: Path, compiler: bool
) -> None:
    (wheel,) = (built if compiler else built_without_a_compiler).glob("*.whl")
    install(scratch_python, wheel, cwd=tmp_path)
    assert counts(scratch_python, tmp_path) == f"{{'a': 2, 'b': 1}} {len(MODULES) if compiler else 0}"


@pytest.mark.submission
@pytest.mark.skipif(sys.platform != "linux", reason="only wheels for Linux have a tag of the C library")
def test_a_wheel_with_the_tag_of_its_c_library_installs_into_an_empty_environment_and_runs(
    built: Path, scratch_python: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    tagged = runpy.run_path(str(ROOT / "requirements" / "wheel.py"))["tagged"](wheel, tmp_path / "dist")
    assert re.fullmatch(rf"{wheel.name.removesuffix(f'linux_{platform.machine()}.whl')}manylinux\S+\.whl", tagged.name)
    assert modules(tagged) == modules(wheel)
    install(scratch_python, tagged, cwd=tmp_path)
    assert run(scratch_python, PROGRAM, cwd=tmp_path) == f"{{'a': 2, 'b': 1}} {len(MODULES)}"


@pytest.mark.submission
def test_a_wheel_without_compiled_modules_is_not_tagged(built_without_a_compiler: Path, tmp_path: Path) -> None:
    (wheel,) = built_without_a_compiler.glob("*.whl")
    with pytest.raises(SystemExit, match="has no compiled modules: install a C compiler"):
        runpy.run_path(str(ROOT / "requirements" / "wheel.py"))["tagged"](wheel, tmp_path / "dist")


@pytest.mark.long
@pytest.mark.parametrize("compiler", [True, False], ids=["with a compiler", "without a compiler"])
def test_a_source_distribution_installs_into_an_empty_environment_and_runs(
    built: Path, scratch_python: Path, tmp_path: Path, compiler: bool
) -> None:
    (archive,) = built.glob("*.tar.gz")
    environment = {} if compiler else {"CC": str(tmp_path / "no-compiler")}
    install(scratch_python, "--no-build-isolation", archive, cwd=tmp_path, **environment)
    assert counts(scratch_python, tmp_path) == f"{{'a': 2, 'b': 1}} {len(MODULES) if compiler else 0}"


@pytest.mark.long
def test_a_wheel_brings_all_that_it_needs_into_an_environment_without_other_packages(
    built: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    uv = Path(sysconfig.get_path("scripts"), "uv")
    python = tmp_path / "empty" / "bin" / "python"
    run(uv, "venv", "--python", sys.executable, tmp_path / "empty", cwd=tmp_path)
    run(uv, "pip", "install", "--python", python, wheel, cwd=tmp_path)
    assert counts(python, tmp_path) == f"{{'a': 2, 'b': 1}} {len(MODULES)}"
    assert run(python.with_name("penstock"), "--version", cwd=tmp_path).endswith("0.1.0")


@pytest.mark.long
def test_the_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    # Not by tarfile: Python 3.11.2 has no filters, and 3.12 warns where none is given.
    run("tar", "-xzf", archive, cwd=tmp_path)
    (unpacked,) = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "again", "-t", "wheel", cwd=unpacked)
    (wheel,), (again,) = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.submission
def test_the_editable_install_shows_penstock_and_not_the_folders(scratch_python: Path, tmp_path: Path) -> None:
    install(scratch_python, "--no-build-isolation", "--editable", ROOT, cwd=tmp_path)
    imported_from = run(scratch_python, "-c", IMPORT_ALL, *PACKAGES, cwd=tmp_path)
    assert imported_from == str(ROOT / ".editable" / "penstock" / "__init__.py")
    assert [entry.name for entry in (ROOT / ".editable").iterdir()] == ["penstock"]
    bare = f"import importlib.util; print([n for n in {PACKAGES} if importlib.util.find_spec(n)])"
    assert run(scratch_python, "-c", bare, cwd=tmp_path) == "[]"


@pytest.mark.submission
def test_without_a_compiler_the_wheel_lacks_the_compiled_modules_and_nothing_else(
    built: Path, built_without_a_compiler: Path
) -> None:
    (wheel,), (compiled,) = built_without_a_compiler.glob("*.whl"), built.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    built_modules = {name for name in modules(compiled) if fnmatch(name, "penstock/*/*.so")}
    assert {Path(name).name.split(".")[0] for name in built_modules} == {
        "librdkafka",
        "json_codec",
        "hashes",
        "join_rows",
        "session_lists",
        "row_runs",
        "row_table",
        "subscription_bytes",
    }
    assert modules(wheel) == modules(compiled) - built_modules


def counts(python: Path, folder: Path) -> str:
    """Returns the counts that a program of an installed penstock prints, and the number of compiled modules in it."""
    load = f"import runpy; ran = runpy.run_path({str(PROGRAM)!r}); print(ran['counts'](), len(ran['compiled']()))"
    return run(python, "-c", load, cwd=folder)


def modules(wheel: Path) -> set[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if name.startswith("penstock/") and not name.endswith("/")}


def install(python: Path, *what: str | Path, cwd: Path, **environment: str) -> None:
    """Install without looking at any index."""
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps")
    run(*pip, *what, cwd=cwd, **environment)


def test_a_change_of_any_source_of_a_compiled_module_rebuilds_it() -> None:
    compiled = runpy.run_path(str(ROOT / "requirements" / "install.py"))["COMPILED"]
    assert {source.name for source in compiled} == {
        "hatch_build.py",
        "librdkafka.pyx",
        "librdkafka.pxd",
        "json_codec.pyx",
        "hashes.pyx",
        "join_rows.pyx",
        "session_lists.pyx",
        "row_runs.pyx",
        "row_table.pyx",
        "subscription_bytes.pyx",
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_no_module_of_an_older_source_remains_after_an_editable_install_that_does_not_end(
    tmp_path: Path, error: type[BaseException]
) -> None:
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["CompiledModules"]
    older = tmp_path / "penstock" / f"hashes{sysconfig.get_config_var('EXT_SUFFIX')}"
    older.parent.mkdir()
    older.touch()

    def does_not_end(*_: object) -> None:
        assert older.exists(), "another process may load it until the new one is there"
        raise error

    hook.initialize.__globals__["_compile"] = does_not_end
    with pytest.raises(error):
        hook(str(tmp_path), {"modules": ["hashes"]}, None, None, "", "").initialize("editable", {})
    assert not older.exists()


@pytest.mark.parametrize("given", [None, "", "cc"])
def test_an_empty_cc_means_the_usual_compiler(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    compiler = runpy.run_path(str(ROOT / "requirements" / "install.py"))["_compiler"]
    monkeypatch.delenv("CC", raising=False)
    expected = compiler()
    if given is not None:
        monkeypatch.setenv("CC", given)
    assert compiler() == expected
