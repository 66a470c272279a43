"""What is on the host that none of its guests accounts for, as the audit lists it."""

from __future__ import annotations

import logging

from compute_agent.contract.messages import MOST_BELONGINGS, Belonging
from compute_agent.servers.services import HostServices
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


def find(services: HostServices, described: set[str]) -> list[Belonging] | None:
    """List the belongings; blocks on the hypervisor and the kernel.  None when one of them could not say.

    ``described``: guests of which this host knows what they are made of.

    Guests are listed before and after: one that comes or goes meanwhile accounts for what it has.
    """
    try:
        before = {guest.uuid for guest in services.driver.guests()}
        found = services.driver.belongings() + services.network.belongings(before)
        guests = before | {guest.uuid for guest in services.driver.guests()}
    except HostError as error:
        log.warning("Could not look for what is left over: %s %s", error.message, error.detail)
        return None
    lost = [Belonging(kind="domain", name=uuid, instance_id=uuid) for uuid in sorted(before - described)]
    return lost + [each for each in found if each.instance_id not in guests]


def without(found: list[Belonging] | None, busy: set[str]) -> list[Belonging] | None:
    """Leave out what belongs to instances with which something is being done, and cut the list."""
    if found is None:
        return None
    return [each for each in found if not each.instance_id or each.instance_id not in busy][:MOST_BELONGINGS]
