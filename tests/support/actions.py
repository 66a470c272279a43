"""Services of server actions by name, for tests that walk through many of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from provisioning.compute import actions


def service(name: str) -> Callable[..., Any]:
    """Return the function that begins an action: ``stop``, ``rescue``, ``create_image`` …"""
    for found in iter_modules(actions.__path__):
        module = import_module(f"{actions.__name__}.{found.name}")
        if name in vars(module):
            function: Callable[..., Any] = vars(module)[name]
            return function
    raise LookupError(f"There is no service {name}.")
