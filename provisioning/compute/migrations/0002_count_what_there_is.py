"""Writes down what projects and users hold already of that which the quotas counted otherwise, or not at all, before."""

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.db import migrations
from django.db.models import Count, Sum

BATCH = 500


def held(apps: Any) -> Iterator[tuple[uuid.UUID, uuid.UUID, str, int, bool]]:
    """Yield (scope, owner, resource, amount, committed) of every record."""
    for resource, model, project in (
        ("networks", "Network", "project_id"),
        ("subnets", "Subnet", "project_id"),
        ("security_groups", "SecurityGroup", "project_id"),
        ("security_group_rules", "SecurityGroupRule", "group__project_id"),
    ):
        for scope, owner in apps.get_model("network", model).objects.values_list(project, "pk").iterator():
            yield scope, owner, resource, 1, True
    ports = apps.get_model("network", "Port").objects
    for scope, owner in ports.filter(delete_with_device=False).values_list("project_id", "pk").iterator():
        yield scope, owner, "ports", 1, True
    building = set()
    servers = apps.get_model("compute", "Instance").objects.filter(vm_state="building")
    for owner, scope, cards in servers.values_list("pk", "project_id", "requested_networks").iterator():
        building.add(owner)
        amount = sum(not card.get("port_id") for card in cards)
        if amount:
            yield scope, owner, "ports", amount, False
    launched = ports.filter(delete_with_device=True, device_id__isnull=False).values_list("project_id", "device_id")
    for scope, owner, amount in launched.annotate(many=Count("pk")).order_by():
        if owner not in building:
            yield scope, owner, "ports", amount, True
    for user, name in apps.get_model("compute", "KeyPair").objects.values_list("user_id", "name").iterator():
        yield user, uuid.uuid5(user, name), "key_pairs", 1, True


def count(apps: Any, schema_editor: Any) -> None:
    """Write a reservation for each record that has none, and the counters anew."""
    reservation, usage = apps.get_model("quotas", "Reservation"), apps.get_model("quotas", "QuotaUsage")
    resources = set()
    rows = []
    for scope, owner, resource, amount, committed in held(apps):
        resources.add(resource)
        rows.append(
            reservation(project_id=scope, owner_id=owner, resource=resource, amount=amount, committed=committed)
        )
    reservation.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)
    sums: Counter[tuple[uuid.UUID, str, bool]] = Counter()
    written = reservation.objects.filter(resource__in=resources)
    for scope, resource, committed, total in written.values_list("project_id", "resource", "committed").annotate(
        total=Sum("amount")
    ):
        sums[scope, resource, committed] = total
    for scope, resource in {(scope, resource) for scope, resource, _ in sums}:
        usage.objects.update_or_create(
            project_id=scope,
            resource=resource,
            defaults={"in_use": sums[scope, resource, True], "reserved": sums[scope, resource, False]},
        )


class Migration(migrations.Migration):
    dependencies = [
        ("compute", "0001_initial"),
        ("network", "0001_initial"),
        ("quotas", "0001_initial"),
    ]

    operations = [migrations.RunPython(count, migrations.RunPython.noop)]
