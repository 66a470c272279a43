"""What is done for identity by the clock."""

import logging
from datetime import timedelta

from provisioning.identity.services import flush as expired
from provisioning.jobs.registry import periodic

EVERY = 3600.0
"""Seconds."""
CREDENTIALS_AFTER = timedelta(days=30)
"""How long people find an application credential in their list, as expired, before it goes."""

logger = logging.getLogger(__name__)


@periodic("identity.flush", every=EVERY)
def flush() -> None:
    """Remove what has expired, and log what that was."""
    removed = {kind: number for kind, number in expired.flush(credentials_after=CREDENTIALS_AFTER).items() if number}
    if removed:
        logger.info("Removed what had expired: %s.", ", ".join(f"{number} {kind}" for kind, number in removed.items()))
