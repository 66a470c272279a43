"""Stops the storage daemons of an agent, and removes its guests' root disks from their pool: part of ``novella-agent
clean``.
"""

import logging

from compute_agent.servers.root_disks import disks_of
from compute_agent.settings import AgentSettings
from compute_agent.start.libvirt_host import daemons_of
from compute_agent.start.volumes import make_driver
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


def remove_everything(settings: AgentSettings) -> list[str]:
    """Stop the daemons and remove the root disks. Return a line for each. Disks in an unavailable pool are kept."""
    done = [f"the storage daemon of volume {each}" for each in daemons_of(settings, None, str).end_all()]
    if not settings.root_disks:
        return done
    driver = make_driver(settings, settings.root_disks)
    try:
        driver.prepare()
        for name, _ in disks_of(settings.host, driver):
            driver.delete(name)
            done.append(f"the root disk {name}")
    except HostError as error:
        log.warning("Root disks of this host stay in pool %s: %s %s", settings.root_disks, error.message, error.detail)
    return done
