"""Removes every bridge, server, filter and namespace that an agent created: part of ``bin/up --clean``."""

import shutil
from pathlib import Path

from compute_agent.network.bridges.bridges import remove_networks
from compute_agent.network.dhcp.dhcp import DhcpServer
from compute_agent.network.filters import applying
from compute_agent.network.filters.tables import removal
from compute_agent.network.kernel import links, names, namespace, nft
from compute_agent.network.kernel.underlay import Underlay
from compute_agent.network.kernel.uplink import Uplink
from compute_agent.network.routers import gateways
from compute_agent.network.routers.advertise import folder_of, stop_advertisers
from compute_agent.network.routers.machine import MachineNetworks
from compute_agent.settings import AgentSettings

OLD_TABLE = "novella"
"""The filter table of version 0.1, whose networks were bridges with a DHCP server each (``bridges/``)."""


def remove_everything(settings: AgentSettings) -> list[str]:
    """Remove the network of this agent; return a line for each removed object. Idempotent.

    Call it in the machine's own network namespace, without a running agent and without guests: a process inside a
    namespace would keep it alive. Raises RetryableHostError.
    """
    folder = settings.state_dir.absolute() / "network"
    bridges = sorted(path for path in folder.glob("bridges/*") if path.is_dir())
    done = [f"DHCP of {path.name}" for path in bridges if DhcpServer(path).stop()]
    networks = sorted(folder.glob("networks/*"))
    done += [f"DHCP of network {path.name}" for path in networks if DhcpServer(path / "dhcp").stop()]
    machine = MachineNetworks(folder_of(folder) / "machine", settings, Underlay(settings, None))
    done += [f"the machine's route to network {network_id}" for network_id in machine.remove()]
    done += _remove_namespaces(folder, settings)
    if settings.netns is None:
        done += remove_networks(folder / "networks")
        nft.apply(gateways.NOTHING)
        done += _remove_bridges(folder, [path.name for path in bridges])
    if Uplink(settings.netns or names.NOBODYS).remove(folder / "ip_forward"):
        done.append("uplink")
    if settings.netns is not None and namespace.remove(settings.netns):
        done.append(f"network namespace {settings.netns}")
    if folder.exists():
        shutil.rmtree(folder)
        done.append(str(folder))
    return done


def _remove_namespaces(folder: Path, settings: AgentSettings) -> list[str]:
    """Remove the namespaces of services and routers, with the processes that still run in them."""
    done = [f"advertisements of router {router_id}" for router_id in stop_advertisers(folder)]
    for kind in names.KINDS:
        for name in namespace.listed(names.namespace_prefix(settings.netns, kind)):
            if namespace.remove(name):
                done.append(f"network namespace {name}")
    return done


def _remove_bridges(folder: Path, bridges: list[str]) -> list[str]:
    """Remove bridges and filters in the current namespace, if this agent ever created anything here."""
    if not folder.exists():
        return []
    old = [line for family in applying.FAMILIES for line in removal(family, OLD_TABLE)]
    nft.apply("".join(f"{line}\n" for line in old))
    applying.remove()
    return [f"bridge {bridge}" for bridge in bridges if links.delete(bridge)]
