"""Ports and addresses without those that the cloud makes for itself: every network with DHCP has one."""

from __future__ import annotations

from django.db.models import QuerySet

from provisioning.network.models import FixedIP, Port
from provisioning.network.records.owners import DHCP


def guest_ports() -> QuerySet[Port]:
    return Port.objects.exclude(device_owner=DHCP)


def guest_addresses() -> QuerySet[FixedIP]:
    return FixedIP.objects.exclude(port__device_owner=DHCP)
