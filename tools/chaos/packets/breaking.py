"""Damage to hosts' networks that is not caused by the agents, which must repair it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from compute_agent.network.filters.identity import TABLE
from compute_agent.network.kernel import links, namespace, nft
from tools.chaos.packets.hosts import Hosts, words_of
from up.switch import Switch, processes_in

T = TypeVar("T")

REPAIRED_WITHIN = 12.0
"""Seconds within which agents must repair damage: they check every five seconds, and a repair takes a while on a busy
machine.
"""


def pull_a_cable(hosts: Hosts, pick: int, seconds: float) -> str:
    """Disconnect a host from the network between the hosts, for a while."""
    number = 1 + pick % len(hosts.names)
    switch = Switch(hosts.places.name)
    switch.cable(number, plugged=False)
    try:
        time.sleep(seconds)
    finally:
        switch.cable(number)
    return hosts.names[number - 1]


def kill_a_server(hosts: Hosts, pick: int, seconds: float) -> str:
    """Kill a DHCP server. Raises LookupError if there is none."""
    spaces = namespace.listed(f"{hosts.places.name}-")
    pid = _picked([each for each in sorted(processes_in(spaces)) if "dnsmasq" in words_of(each)], pick)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return f"process {pid}"


def delete_a_bridge(hosts: Hosts, pick: int, seconds: float) -> str:
    """Delete a network's bridge on one of the hosts. Raises LookupError if there is none."""
    bridges = [(space, name) for space in _guests(hosts) for name in _in(space, links.names) if name.startswith("br")]
    space, bridge = _picked(bridges, pick)
    _in(space, lambda: links.delete(bridge))
    return f"{bridge} in {space}"


def delete_a_filter(hosts: Hosts, pick: int, seconds: float) -> str:
    """Delete the nftables table with the filters of a host's guests. Raises LookupError if there is none."""
    tables = [(space, *each) for space in _guests(hosts) for each in sorted(_in(space, nft.tables)) if each[1] == TABLE]
    space, family, table = _picked(tables, pick)
    _in(space, lambda: nft.load(f"delete table {family} {table}\n"))
    return f"{family} {table} in {space}"


def _guests(hosts: Hosts) -> list[str]:
    """Return the existing namespaces that agents have created for bridges and guests."""
    wanted = [hosts.places.guests(number) for number in range(1, len(hosts.names) + 1)]
    return [space for space in wanted if (namespace.FOLDER / space).exists()]


def _in(space: str, work: Callable[[], T]) -> T:
    with namespace.inside(space):
        return work()


def _picked(found: Sequence[T], pick: int) -> T:
    if not found:
        raise LookupError("there is none")
    return found[pick % len(found)]
