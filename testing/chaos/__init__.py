"""The chaos harness: a real broker, a real Ray, an application, faults from a seed, and what must hold afterwards.

``python -m penstock.testing.chaos --seconds 300 --seed 7`` plays the program that comes with it (:mod:`.numbered`);
``python -m penstock.testing.chaos MODULE:PROGRAM`` one of yours: see :class:`Program` and docs/CHAOS.md. It needs the
extra ``local`` (the broker).

Pure: ``schedule`` (which faults, when), ``program`` (what must be known of an application), ``numbered`` and ``timed``
(two of them), ``checks`` (what must hold of records). Shells: ``rig`` (broker, Ray, processes), ``strike`` (does what
the schedule says), ``sabotage`` (what it does to files), ``network`` and ``proxy`` (what it does to connections),
``feeder``, ``prober`` and its ``http_client``, ``rest``, ``disks``, and over them ``run``.
"""

from penstock.common.errors import ConfigError
from penstock.testing.chaos.program import AtRest, Guarantee, Program, Written
from penstock.testing.chaos.schedule import Kind

try:
    from penstock.testing.chaos.run import Report, run
except ModuleNotFoundError as error:
    raise ConfigError(f"{error.name} is not installed: pip install 'penstock-streams[local]'") from error

__all__ = ["AtRest", "Guarantee", "Kind", "Program", "Report", "Written", "run"]
