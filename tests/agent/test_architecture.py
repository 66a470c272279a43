"""The agent stands alone: it imports without the portal, and a simulated host without libvirt and its friends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PORTAL = ("django", "django_q", "channels", "rest_framework", "daphne", "portal", "provisioning")
HEAVY = ("libvirt", "pyroute2", "oslo_utils", "netaddr")

PROGRAM = """
import importlib, pkgutil, sys
blocked, everything = sys.argv[1].split(","), sys.argv[2] == "everything"

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name in blocked or name.split(".")[0] in blocked:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Wall())
import compute_agent
import compute_agent.start.main
if everything:
    for module in pkgutil.walk_packages(compute_agent.__path__, "compute_agent."):
        if module.name != "compute_agent.__main__":
            importlib.import_module(module.name)
print("imported")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocked", "extent"), [(PORTAL, "everything"), ((*PORTAL, *HEAVY), "simulated")], ids=["all of it", "the fake"]
)
def test_the_agent_imports_with_the_portal_blocked(blocked: tuple[str, ...], extent: str) -> None:
    command = [sys.executable, "-c", PROGRAM, ",".join(blocked), extent]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "imported", done.stderr
