"""What web and worker do not load, although it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from provisioning.common.processes.left_out import BY_ROLE
from tests.support.databases import CHECKOUT

WEB = (
    "import portal.asgi, daphne.http_protocol, daphne.ws_protocol, django.urls; django.urls.get_resolver().reverse_dict"
)
WORKER = (
    "import sys, runpy; sys.argv = ['manage.py', 'qworker', '--help']\n"
    "try: runpy.run_path('manage.py', run_name='__main__')\n"
    "except SystemExit: pass\n"
    "import provisioning.jobs.management.commands.qworker"
)
SAY = "import sys, json; print(json.dumps([name for name, module in sys.modules.items() if module is not None]))"


@pytest.mark.slow
def test_importing_the_settings_leaves_nothing_out_and_creates_nothing(tmp_path: Path) -> None:
    """Tools do so: type checkers, editors, ``django-admin``."""
    program = "import portal.settings, sys; print([name for name, module in sys.modules.items() if module is None])"
    environment = {"NOVELLA_ROLE": "web", "NOVELLA_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0)
    assert not list(tmp_path.iterdir()), "importing the settings creates no keys and no folders"


@pytest.mark.slow
@pytest.mark.parametrize(("role", "program"), [pytest.param("web", WEB, marks=pytest.mark.deep), ("worker", WORKER)])
def test_libraries_that_are_not_used_take_no_memory(role: str, program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{SAY}"],
        cwd=CHECKOUT,
        env={"NOVELLA_ROLE": role, "NOVELLA_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "portal.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "django.db.backends.sqlite3.base" in loaded
    assert not loaded & {*BY_ROLE[role], "psycopg", "charset_normalizer", "urllib3"}
    assert "ERROR" not in done.stderr
