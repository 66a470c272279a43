"""The switch of a guest's network, which both sides perform."""

import asyncio
import logging
from collections.abc import Callable

from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


async def switched(switch: Callable[[], None]) -> None:
    """Switch a guest's network. A failure does not end the migration: the host's network retries."""
    try:
        await asyncio.to_thread(switch)
    except HostError as error:
        log.warning("The network of a guest that moves is not complete: %s %s", error.message, error.detail)
