"""Periodic jobs of identity."""

import logging
from datetime import timedelta

from provisioning.identity.services import flush as expired
from provisioning.jobs.registry import periodic

EVERY = 3600.0
"""Seconds between two runs."""
CREDENTIALS_AFTER = timedelta(days=30)
"""How long an expired application credential stays in its user's list."""

logger = logging.getLogger(__name__)


@periodic("identity.flush", every=EVERY)
def flush() -> None:
    """Delete expired records, and log their number."""
    removed = {kind: number for kind, number in expired.flush(credentials_after=CREDENTIALS_AFTER).items() if number}
    if removed:
        logger.info("Deleted expired records: %s.", ", ".join(f"{number} {kind}" for kind, number in removed.items()))
