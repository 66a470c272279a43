"""Remove every bridge, server, filter and namespace an agent made: part of ``bin/up --clean``."""

import shutil
from pathlib import Path

from pyroute2 import netns

from compute_agent.network import firewall, links
from compute_agent.network.dhcp import DhcpServer
from compute_agent.network.uplink import Uplink
from compute_agent.settings import AgentSettings


def remove_everything(settings: AgentSettings) -> list[str]:
    """Remove the network of this agent; return a line for each thing done.  Idempotent.

    Call it in the machine's own network namespace, with no agent on the folder, after the guests are gone: a process
    inside keeps a namespace alive.  Raises RetryableHostError.
    """
    folder = settings.state_dir.absolute() / "network"
    done = []
    bridges = sorted(path for path in folder.glob("bridges/*") if path.is_dir())
    for path in bridges:
        if DhcpServer(path).stop():
            done.append(f"DHCP of {path.name}")
    if settings.netns is None:
        done += _remove_bridges(folder, [path.name for path in bridges])
    else:
        if Uplink(settings.netns).remove(folder / "ip_forward"):
            done.append("uplink")
        if settings.netns in netns.listnetns():
            netns.remove(settings.netns)
            done.append(f"network namespace {settings.netns}")
    if folder.exists():
        shutil.rmtree(folder)
        done.append(str(folder))
    return done


def _remove_bridges(folder: Path, bridges: list[str]) -> list[str]:
    """Remove what lies in the namespace we are in, when this agent ever made anything here."""
    if not folder.exists():
        return []
    firewall.remove()
    return [f"bridge {bridge}" for bridge in bridges if links.delete(bridge)]
