"""Resources on the host that belong to none of its guests, as the audit lists them."""

import logging

from compute_agent.contract.messages import MOST_LEFTOVERS, Leftover
from compute_agent.servers.services import HostServices
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


def find(services: HostServices, described: set[str]) -> list[Leftover] | None:
    """List the leftovers; None if the hypervisor or the network could not be read. Blocks while they are read.

    ``described``: the guests whose specs this host has stored. Guests are listed before and after, so that resources of
    a guest that appears or disappears between the two lists are not reported.
    """
    try:
        before = {guest.uuid for guest in services.driver.guests()}
        leftovers = services.driver.leftovers() + services.network.leftovers(before)
        guests = before | {guest.uuid for guest in services.driver.guests()}
    except HostError as error:
        log.warning("Could not look for what is left over: %s %s", error.message, error.detail)
        return None
    lost = [Leftover(kind="domain", name=uuid, subject_id=uuid) for uuid in sorted(before - described)]
    return lost + [each for each in leftovers if each.subject_id not in guests]


def without(leftovers: list[Leftover] | None, busy: set[str]) -> list[Leftover] | None:
    """Return the leftovers without those of instances that have a command, at most ``MOST_LEFTOVERS``."""
    if leftovers is None:
        return None
    return [each for each in leftovers if not each.subject_id or each.subject_id not in busy][:MOST_LEFTOVERS]
