"""Every server action: importing this module registers them, and with them all that derives from the registry.

A new action is a new module beside this one; nothing lists it.
"""

from importlib import import_module
from pkgutil import iter_modules

from provisioning.compute import actions

for _module in iter_modules(actions.__path__):
    if _module.name != "every":
        import_module(f"{actions.__name__}.{_module.name}")
