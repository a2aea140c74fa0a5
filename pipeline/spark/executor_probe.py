"""Looks at a Spark worker before any work. It is sent by value, because penstock may be missing there, and imports
Python's library alone."""

import importlib
import importlib.util
import pickle
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Probe:
    """``run`` is given to ``mapPartitions``. ``own`` is penstock, ``shipped`` is its folder, and ``packages`` are the
    names of packages by the modules that are imported."""

    own: str
    shipped: str
    packages: Mapping[str, str]
    program: bytes
    files: Sequence[str]

    def run(self, numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        """Yields the executor, and a sentence about each thing that it lacks; an empty text if it lacks nothing."""
        here = f"{platform.node()}, {Path.cwd()}"
        problems = list(self._problems())
        yield from ((here, problem) for problem in problems or [""])

    def _problems(self) -> Iterator[str]:
        missing = [name for module, name in self.packages.items() if importlib.util.find_spec(module) is None]
        if missing:
            yield f"has no package {', '.join(missing)}: install it there for {platform.python_version()}"
            return
        try:
            found = importlib.import_module(self.own).__file__
        except Exception as error:
            yield f"cannot import penstock: {type(error).__name__}: {error}"
            return
        if self.shipped not in Path(str(found)).parts:
            yield f"imports penstock from {found}, not what was sent to it: see spark.executorEnv.PYTHONPATH"
            return
        for file in self.files:
            if not Path(file).is_file():
                yield f"has no file {file}"
        try:
            pickle.loads(self.program)
        except Exception as error:  # unpickling imports the user's modules
            yield f"cannot load the program: {type(error).__name__}: {error}"
