"""Migrations are safe while processes of the version before still run and insert rows without the new columns."""

from __future__ import annotations

from django.apps import apps
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import AddField
from django.db.models import NOT_PROVIDED

CHANGED_LAST = {
    "compute": "0004_rebuild_of_volumes", "ec2": "0003_ids_by_resource", "hosts": "0006_command_totals",
    "identity": "0007_manager_and_service", "images": "0001_initial", "network": "0007_vpcs",
    "volumes": "0002_modifications",
}  # fmt: skip
"""The newest migrations that add columns without a default in the database; no later one does."""


def test_every_added_column_has_a_value_for_older_processes() -> None:
    ours = {config.label for config in apps.get_app_configs() if config.name.startswith("provisioning.")}
    result = set()
    for (label, name), migration in MigrationLoader(None).disk_migrations.items():
        if label not in ours or name <= CHANGED_LAST.get(label, ""):
            continue
        added = [each for each in migration.operations if isinstance(each, AddField)]
        needed = [each for each in added if not (each.field.null or each.field.many_to_many)]
        result |= {(label, name, each.name) for each in needed if each.field.db_default is NOT_PROVIDED}
    assert result == set()
