"""A program as bytes that hold the user's code as well, not only the names of its modules.

While one version replaces another, both live side by side, and the old one must be there for a roll-back. The files on
the nodes are of one version alone, and it is not known of which.
"""

from __future__ import annotations

import threading

from ray import cloudpickle

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.programs.pickled_program import pickled_program
from penstock.common.errors import ConfigError
from penstock.common.users_modules import users_modules

_registering = threading.Lock()
"""Held while modules are registered: cloudpickle keeps one list of them for the whole process."""


def pickled_with_code(spec: ApplicationSpec) -> bytes:
    """The program with its code: the modules that belong to neither Python, penstock nor an installed library.

    Raises ConfigError when something that it refers to cannot be pickled, module-level variables included.
    """
    modules = users_modules()
    with _registering:
        for module in modules:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # untyped in Ray
        try:
            return pickled_program(spec)
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]  # untyped in Ray


def unpickled_program(pickled: bytes) -> ApplicationSpec:
    """The program. Raises ConfigError when a library that it needs is not here."""
    try:
        spec: ApplicationSpec = cloudpickle.loads(pickled)
    except Exception as error:  # unpickling runs arbitrary code of the user's objects
        raise ConfigError(f"the program cannot be read here: {type(error).__name__}: {error}") from error
    return spec
