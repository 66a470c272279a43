"""A real worker group for the webhook: ``python -m tests.notifications.worker <database name>``."""

from __future__ import annotations

import sys

import django
from django.conf import settings

if __name__ == "__main__":
    settings.DATABASES["default"]["NAME"] = sys.argv[1]
    django.setup()
    from provisioning.jobs.workers.master import run_group

    sys.exit(run_group(["notifications"], 1, periodic=False))
