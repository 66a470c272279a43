"""The agent of a host whose guests are simulated and whose network is real.

It takes the options of ``novella-agent``, with the fake driver and the namespaces of the host's machine.
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
from compute_agent.start.assembly import Machine, fake_services
from compute_agent.start.machine import enter_network, lock
from compute_agent.start.main import main
from compute_agent.start.options import Options
from tools.chaos.packets.wires import WiredDriver


def make_ready(options: Options) -> Machine:
    """Lock the state folder and move into the host's namespaces."""
    (settings,) = options.hosts
    lock(settings.state_dir)
    return Machine(enter_network(settings), "")


def wired_services(settings: AgentSettings, threads: Threads, machine: Machine) -> HostServices:
    """Create a host of simulated guests with the network of a real one."""
    if settings.machine_netns is None:
        raise HostUnfitError("A host with simulated guests and a real network needs --machine-netns.")
    metadata = MetadataService()
    made = fake_services(settings, threads, machine, partial(WiredDriver, machine=settings.machine_netns))
    return replace(made, network=LinuxNetwork(settings, metadata), metadata=metadata)


if __name__ == "__main__":
    code = main(None, make_ready, wired_services)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that hangs in the hypervisor does not keep it alive
