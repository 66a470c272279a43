"""The periodic check of quotas, which reports differences to operators but does not repair them."""

import logging

from provisioning.jobs.registry import periodic
from provisioning.quotas.services.repair import examine

EVERY = 3600.0
"""Interval in seconds; a check reads all reservations."""
MOST_LOGGED = 20
"""Maximum number of logged differences of a check."""

logger = logging.getLogger(__name__)


@periodic("quotas.check", every=EVERY)
def check() -> None:
    """Log the differences that ``quota_check`` would report."""
    differences = examine()
    for finding in differences[:MOST_LOGGED]:
        logger.warning("Quota: %s", finding)
    if differences:
        logger.warning("%s quota records are wrong; 'manage.py quota_check --repair' repairs them.", len(differences))
