"""Counts the addresses that ports have already: their limit came after them."""

import uuid
from collections import defaultdict
from typing import Any

from django.apps.registry import Apps
from django.db import migrations
from django.db.models import Count

RESOURCE = "fixed_ips"


def count_addresses(apps: Apps, schema_editor: object) -> None:
    """Write down the addresses of each server and of each port of its own, and those that servers being built will get.

    Nobody loses an address: a project that has more than its limit only gets no more.
    """
    Instance, Port = apps.get_model("compute", "Instance"), apps.get_model("network", "Port")
    Reservation, QuotaUsage = apps.get_model("quotas", "Reservation"), apps.get_model("quotas", "QuotaUsage")
    building: dict[uuid.UUID, tuple[uuid.UUID, int]] = {}
    held: dict[tuple[uuid.UUID, uuid.UUID], int] = defaultdict(int)
    servers = Instance.objects.filter(vm_state="building").values_list("id", "project_id", "requested_networks")
    for server, project, interfaces in servers.iterator():
        building[server] = project, sum(not interface.get("port_id") for interface in interfaces)
    ports = Port.objects.annotate(many=Count("fixed_ips")).order_by()
    there = set()
    for port, project, device, goes, many in ports.values_list(
        "id", "project_id", "device_id", "delete_with_device", "many"
    ).iterator():
        held[project, device if goes and device else port] += many
        if goes:
            there.add(device)
    for server, (project, many) in building.items():
        if server not in there:
            held[project, server] = many
    rows = [
        Reservation(
            project_id=project, owner_id=owner, resource=RESOURCE, amount=amount, committed=owner not in building
        )
        for (project, owner), amount in held.items()
        if amount
    ]
    Reservation.objects.bulk_create(rows, batch_size=500)
    usage: dict[uuid.UUID, Any] = {}
    for row in rows:
        counter = usage.setdefault(row.project_id, QuotaUsage(project_id=row.project_id, resource=RESOURCE))
        if row.committed:
            counter.in_use += row.amount
        else:
            counter.reserved += row.amount
    QuotaUsage.objects.bulk_create(usage.values(), batch_size=500)


def forget_addresses(apps: Apps, schema_editor: object) -> None:
    """Keep no count of them, as before."""
    for name in ("Reservation", "QuotaUsage", "QuotaLimit"):
        apps.get_model("quotas", name).objects.filter(resource=RESOURCE).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0001_initial"),
        ("compute", "0001_initial"),
        ("network", "0001_initial"),
    ]

    operations = [migrations.RunPython(count_addresses, forget_addresses)]
