"""Hardware addresses that are on every host, and what stands for them between hosts.

A router has the same address on each host, so that a guest finds it wherever it runs.  Between hosts such an address
would be in two places at once: there each host's router goes by an alias of its own, which ``routers.gateways`` puts
into frames that leave the host and takes out of those that arrive.
"""

import hashlib

from compute_agent.contract.network import NetworkDocument


def alias(mac: str, underlay: str) -> str:
    """Return what stands between hosts for the shared address ``mac`` at the host with this underlay address.

    Locally administered, and outside of the range of ports (``fa:16:3e``).
    """
    digest = hashlib.sha256(f"{underlay} {mac}".encode()).digest()
    return "fa:3f:" + ":".join(f"{byte:02x}" for byte in digest[:4])


def aliases(network: NetworkDocument) -> list[tuple[str, str]]:
    """List the aliases of all other hosts that have the network, with the underlay address of each."""
    return [(alias(mac, peer), peer) for peer in network.peers for mac in network.shared_macs]
