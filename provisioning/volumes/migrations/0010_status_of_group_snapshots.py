"""Stores the status of group snapshots that was derived from their snapshots before."""

from typing import Any

from django.db import migrations
from django.db.models import Exists, OuterRef


def settle(apps: Any, schema_editor: Any) -> None:
    """Set complete group snapshots to ``available``, and those with a failed snapshot to ``error``."""
    theirs = apps.get_model("volumes", "Snapshot").objects.filter(group_snapshot=OuterRef("pk"))
    rows = apps.get_model("volumes", "GroupSnapshot").objects.filter(status="creating")
    rows.filter(Exists(theirs.filter(status="error"))).update(status="error")
    rows.exclude(Exists(theirs.filter(status="creating"))).update(status="available")


class Migration(migrations.Migration):
    dependencies = [("volumes", "0009_type_of_deleted_data")]
    operations = [migrations.RunPython(settle, migrations.RunPython.noop)]
