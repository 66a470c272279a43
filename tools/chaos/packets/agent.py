"""The agent of a host whose guests are simulated and whose network is real.

It accepts the options of ``novella-agent``; the driver has to be ``fake``, and ``--machine-netns`` is required.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from functools import partial

from compute_agent.engine.threads import Threads
from compute_agent.link.errors import HostUnfitError
from compute_agent.metadata.service import MetadataService
from compute_agent.network.linux import LinuxNetwork
from compute_agent.servers.services import HostServices
from compute_agent.settings import AgentSettings
from compute_agent.start.assembly import fake_services
from compute_agent.start.machine import Machine, enter_network, lock
from compute_agent.start.main import main
from compute_agent.start.options import Options
from compute_agent.virt.migration_link.address import MigrationAddress
from tools.chaos.packets.wires import WiredDriver


def make_ready(options: Options) -> Machine:
    """Lock the state folder and enter the host's namespaces."""
    (settings,) = options.hosts
    lock(settings.state_dir)
    return Machine(enter_network(settings), "")


def wired_services(settings: AgentSettings, threads: Threads, machine: Machine) -> HostServices:
    """Create the services of a host with simulated guests and a real network."""
    if settings.machine_netns is None:
        raise HostUnfitError("A host with simulated guests and a real network needs --machine-netns.")
    metadata = MetadataService()
    made = fake_services(settings, threads, machine, partial(WiredDriver, machine=settings.machine_netns))
    network = LinuxNetwork(settings, metadata)
    migrations = MigrationAddress(network.reached_at, None, settings.volume_ports)
    return replace(made, network=network, metadata=metadata, migrations=migrations)


if __name__ == "__main__":
    code = main(None, make_ready, wired_services)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that hangs in the hypervisor's driver does not keep it alive
