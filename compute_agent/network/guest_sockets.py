"""Sockets from this host to its guests, for connections that the portal has authorized and forwards through tunnels.

The sockets are opened in the service namespace of the guest's network. The filters allow that namespace's traffic
regardless of security groups, and the only programs of the host in it are the DHCP and DNS server.
"""

import ipaddress
import socket
from collections.abc import Iterable

from compute_agent.contract.build import PortRef
from compute_agent.network.host_network import Target
from compute_agent.network.kernel import names, namespace
from compute_agent.network.kernel.links import FAMILIES
from compute_agent.virt.errors import InstanceNotFoundError, UnsupportedError


def interface_of(ports: Iterable[PortRef], port_id: str, address: str) -> PortRef:
    """Return the interface with the id ``port_id``, which must have ``address`` as a fixed address. Sockets to other
    addresses are not allowed.

    Raises InstanceNotFoundError if there is no such interface.
    """
    for port in ports:
        if port.id == port_id and any(fixed.address == address for fixed in port.fixed_ips):
            return port
    raise InstanceNotFoundError("The guest has no such address on this host.")


def open_in(space: str, address: str, port: int) -> Target:
    """Open a socket in the service namespace ``space`` of the guest's network. Its packets are sent only to this
    network.

    Raises UnsupportedError if the host is not permitted to, or if the namespace or the address family does not exist.
    """
    family = FAMILIES[ipaddress.ip_address(address).version]
    opened = None
    try:
        with namespace.inside(space):
            opened = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, names.INSIDE.encode())
    except OSError as error:
        if opened is not None:
            opened.close()
        raise UnsupportedError("The host cannot reach the guest's network.", detail=str(error)) from error
    return opened, (address, port)
