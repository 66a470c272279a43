"""Compiles the portal's modules for an account without write access to the checkout: otherwise each start would compile
them again.

They are imported once by the owner of the checkout, with a temporary data folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from up.data_folder import fingerprint
from up.run_as import CHECKOUT

STAMP = Path(sys.prefix) / "compiled"
"""A file in the Python environment with the checksum of the sources that were compiled."""
MODULES = (
    "import django, portal.asgi, django.core.management.commands.migrate, portal.web.master,"
    " portal.ops.management.commands.web, portal.web.process, portal.web.daphne_internals,"
    " provisioning.jobs.management.commands.qworker"
)


def ensure() -> None:
    """Compile new modules; failures are reported by the program that needs them."""
    own = [path for name in ("portal", "provisioning", "compute_agent") for path in CHECKOUT.glob(f"{name}/**/*.py")]
    key = fingerprint([*own, CHECKOUT / "requirements/base.lock"])
    if STAMP.is_file() and STAMP.read_text() == key:
        return
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOVELLA_")}
    with tempfile.TemporaryDirectory() as folder:
        environment |= {
            "NOVELLA_DATA": folder,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PYTHONPATH": str(CHECKOUT),
        }
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", MODULES], env=environment, capture_output=True, check=False
        )
    STAMP.write_text(key)
