"""MAC addresses that exist on every host, and their aliases between hosts.

A router has the same MAC address on each host, so that guests reach it on any host. Between hosts, the same address
would belong to several hosts. Therefore each host has an alias for the address; ``routers.gateways`` translates the
address in frames that leave or reach the host.
"""

import hashlib

from compute_agent.contract.network import NetworkDocument


def alias(mac: str, underlay: str) -> str:
    """Return the alias of the shared address ``mac`` between hosts, for the host with this underlay address.

    The alias is locally administered, and outside the range of ports (``fa:16:3e``).
    """
    digest = hashlib.sha256(f"{underlay} {mac}".encode()).digest()
    return "fa:3f:" + ":".join(f"{byte:02x}" for byte in digest[:4])


def aliases(network: NetworkDocument) -> list[tuple[str, str]]:
    """Return the alias and the underlay address for each shared MAC address on each other host of the network."""
    return [(alias(mac, peer), peer) for peer in network.peers for mac in network.shared_macs]
