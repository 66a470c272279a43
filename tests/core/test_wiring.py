"""``provisioning.wiring`` reaches every module that registers work, and its lists are connected once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from provisioning.common.wired import Wired
from tests.support.one_machine import CHECKOUT

REGISTERS = re.compile(r"^@((registry\.)?(job|periodic)|check)\(|^@(task|action)$|^ *periodic\(", re.MULTILINE)
"""Jobs, work by the clock, checks, tasks of volumes, actions of servers."""
LOADED = """
import json, sys, django
django.setup()
print(json.dumps([name for name in sys.modules if name.startswith("provisioning.")]))
"""


@pytest.mark.slow
def test_a_worker_loads_every_module_that_registers_work() -> None:
    """It starts a worker's Python: the modules that other tests have imported would hide a missing one."""
    environment = os.environ | {"NOVELLA_ROLE": "worker", "DJANGO_SETTINGS_MODULE": "portal.settings"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    paths = [path for path in (CHECKOUT / "provisioning").rglob("*.py") if REGISTERS.search(path.read_text())]
    registering = {".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in paths}
    assert registering > {"provisioning.compute.actions.trim", "provisioning.volumes.services.updates.extend"}
    assert registering - set(json.loads(done.stdout)) == set(), "add it to provisioning.wiring"


def test_a_list_is_connected_once_and_not_read_before() -> None:
    wired = Wired[int]("The numbers")
    with pytest.raises(RuntimeError, match="not connected"):
        list(wired)
    wired.connect(1, 2)
    assert ([*wired], len(wired)) == ([1, 2], 2)
    with pytest.raises(RuntimeError, match="already"):
        wired.connect(3)
    with pytest.raises(ValueError, match="too many"):
        wired.only()
