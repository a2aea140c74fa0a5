"""One closure per operator: called with (key, value, timestamp), calls its successor in the same way.

Each factory takes the operator's specification and a :class:`~penstock.tasks.wiring.Wiring`, and returns the closure;
``closure_of`` registers it. The ``try`` around a user function costs nothing until it raises (CPython 3.11+), and
names the operator when it does. Importing this package registers all of them.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
