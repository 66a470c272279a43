#!/usr/bin/env python
"""Django's command line for Novella."""

import os
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent


def as_owner() -> None:
    """Continue as the account that owns the portal's folder, if root runs the command.

    So web and workers can read the files that a command writes there (keys, images, the database), and root follows no
    link that the account has created.
    """
    portal = Path(os.environ.get("NOVELLA_DATA") or CHECKOUT / "var").resolve() / "portal"
    if os.geteuid() != 0 or not portal.is_dir() or portal.stat().st_uid == 0:
        return
    command = [sys.executable, str(CHECKOUT / "bin/libexec"), "up.run_as", str(portal), sys.executable, *sys.argv]
    os.execv(command[0], command)  # noqa: S606 - this program again


if __name__ == "__main__":
    as_owner()
    from django.core.management import execute_from_command_line
    from django.db.utils import OperationalError, ProgrammingError

    from provisioning.common.processes.left_out import leave_out

    leave_out(os.environ.get("NOVELLA_ROLE", ""))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    try:
        execute_from_command_line(sys.argv)
    except (OperationalError, ProgrammingError) as error:
        if "no such table" not in str(error) and getattr(error.__cause__, "sqlstate", None) != "42P01":
            raise
        data = os.environ.get("NOVELLA_DATA") or CHECKOUT / "var"
        sys.exit(f"There is no cloud in {data}: run bin/up first, or name another data folder by NOVELLA_DATA.")
