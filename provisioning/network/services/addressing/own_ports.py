"""Ports that the cloud creates for itself: router gateways and interfaces, floating IPs, and DHCP."""

import uuid
from typing import Any

from django.db import IntegrityError, transaction

from provisioning.common.database.prepared import PreparedInsert
from provisioning.network import addressing
from provisioning.network.models import Port

MAX_TRIES = 8
"""Attempts to find an unused MAC address or address."""


def create_own_port(**columns: Any) -> Port:
    """Insert a port without port security and with a random MAC address, in the caller's transaction.

    If the MAC address is in use, another one is tried.
    """
    for tried in range(1, MAX_TRIES + 1):
        try:
            with transaction.atomic():
                port = Port(mac_address=addressing.random_mac(), port_security_enabled=False, **columns)
                _INSERT([port])
                return port
        except IntegrityError:
            if tried == MAX_TRIES:
                raise
    raise AssertionError("unreachable")


_INSERT = PreparedInsert(Port)


def free_mac(network_id: uuid.UUID) -> str:
    """Return a random MAC address that no port of the network uses now."""
    while Port.objects.filter(network=network_id, mac_address=(mac := addressing.random_mac())).exists():
        pass
    return mac
