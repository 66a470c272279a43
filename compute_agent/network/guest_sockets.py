"""Sockets from this host to its guests, for the connections that the portal has allowed and carries through a tunnel.

They are opened in the service namespace of the guest's network: the filters let in what that sends, whatever the
security groups say, and no other program of the host is in there but DHCP and names.
"""

import ipaddress
import socket
from collections.abc import Iterable

from compute_agent.contract.build import PortRef
from compute_agent.network import names, namespace
from compute_agent.network.host_network import Target
from compute_agent.virt.errors import InstanceNotFoundError, UnsupportedError


def interface_of(ports: Iterable[PortRef], port_id: str, address: str) -> PortRef:
    """Return the interface if the address is one of its fixed ones; nothing else is ever reached.

    Raises InstanceNotFoundError.
    """
    for port in ports:
        if port.id == port_id and any(fixed.address == address for fixed in port.fixed_ips):
            return port
    raise InstanceNotFoundError("The guest has no such address on this host.")


def open_in(space: str, address: str, port: int) -> Target:
    """Open a socket in the service namespace of the guest's network, whose packets leave towards the network alone.

    Raises UnsupportedError when the host may not, or knows no such namespace or family.
    """
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
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
