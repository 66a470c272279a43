"""Decisions are kept by action, with the time that reading took; hosts learn what their aggregates say already."""

import math
from typing import Any

from django.db import migrations, models

MOST_RATIO, MOST = 1000, 2_147_483_647
COLUMNS = {
    "cpu_allocation_ratio": "aggregate_cpu_ratio",
    "ram_allocation_ratio": "aggregate_ram_ratio",
    "disk_allocation_ratio": "aggregate_disk_ratio",
    "max_instances_per_host": "aggregate_max_instances",
    "max_io_ops_per_host": "aggregate_max_io_ops",
}


def number(key: str, text: object) -> float | int | None:
    """Return what an aggregate says; None for what says nothing that can be obeyed."""
    try:
        found = float(str(text))
    except ValueError:
        return None
    if key.endswith("_ratio"):
        return found if math.isfinite(found) and 0 < found <= MOST_RATIO else None
    return int(found) if math.isfinite(found) and found == int(found) and 0 <= found <= MOST else None


def materialise(apps: Any, schema_editor: Any) -> None:
    """Write the smallest value of its aggregates to each host."""
    said: dict[Any, dict[str, float]] = {}
    memberships = apps.get_model("compute", "AggregateHost").objects
    for host_id, metadata in memberships.values_list("host_id", "aggregate__metadata").iterator():
        values = {column: number(key, metadata[key]) for key, column in COLUMNS.items() if key in metadata}
        known = said.setdefault(host_id, {})
        for column, value in values.items():
            if value is not None:
                known[column] = min(value, known.get(column, value))
    hosts = apps.get_model("compute", "Host").objects
    for host_id, columns in said.items():
        if columns:
            hosts.filter(pk=host_id).update(**columns)


class Migration(migrations.Migration):
    dependencies = [("compute", "0006_scheduler_and_reconciliation")]

    operations = [
        migrations.RemoveConstraint(model_name="schedulingdecision", name="one_decision_per_attempt"),
        migrations.AddField(
            model_name="schedulingdecision", name="action", field=models.CharField(default="create", max_length=40)
        ),
        migrations.AddField(
            model_name="schedulingdecision", name="read_seconds", field=models.FloatField(default=0)
        ),
        migrations.AddConstraint(
            model_name="schedulingdecision",
            constraint=models.UniqueConstraint(
                fields=("instance", "attempt", "action"), name="one_decision_per_action"
            ),
        ),
        migrations.RunPython(materialise, migrations.RunPython.noop),
    ]
