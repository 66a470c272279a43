"""The check by the clock: it tells operators, and mends nothing."""

import logging

from provisioning.jobs.registry import periodic
from provisioning.quotas.services.repair import examine

EVERY = 3600.0
"""Seconds: a check reads every reservation once."""
TOLD = 20
"""Lines of one check in the log."""

logger = logging.getLogger(__name__)


@periodic("quotas.check", every=EVERY)
def check() -> None:
    """Log what ``quota_check`` would say."""
    found = examine()
    for finding in found[:TOLD]:
        logger.warning("Quota: %s", finding)
    if found:
        logger.warning("%s quota records are wrong; 'manage.py quota_check --repair' sets them right.", len(found))
