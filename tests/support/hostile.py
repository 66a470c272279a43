"""Hostile texts in each field that users, operators, hosts and guests fill: markup, and 255 characters without a space
that turn the direction of what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db.models import CharField, Field, JSONField, Model, TextField

from provisioning.compute.models import InstanceActionEvent
from provisioning.identity.models import Role, Service

TURNED = "\N{RIGHT-TO-LEFT OVERRIDE}"
MARKUP = '<b class="hostile">'
END = f"{MARKUP}<script>throw 'hostile'</script>\N{ELEPHANT}" + "w" * 255
APPS = ("batches", "compute", "drains", "hosts", "identity", "images", "launches", "network", "starred", "volumes")
TEXTS = {
    *("name", "description", "image_name", "key_name", "display_name", "host_name", "program", "dns_name"),
    *("disabled_reason", "disabled_by", "locked_reason", "fail_reason", "reason", "fault", "warning", "message"),
    *("last_error", "tag", "physical_network", "device_text", "uptime", "agent_version", "hypervisor_hostname"),
}
"""Names of columns with free text."""
FILLED = {"description", "disabled_reason", "locked_reason", "warning"}
"""Columns that are hostile in each row, also where they were empty."""
MAPPINGS = {"metadata", "image_metadata", "properties", "extra_specs", "specs", "capabilities", "image_properties"}
"""Names of columns with text → text."""
LISTS = {"tags", "warnings"}
"""Names of columns with texts."""
CHOSEN_BY_NOVELLA = {InstanceActionEvent, Role, Service}
"""Models whose names are not free."""


def models() -> Iterator[type[Model]]:
    for app in APPS:
        yield from set(apps.get_app_config(app).get_models()) - CHOSEN_BY_NOVELLA


def turned(text: str, most: int | None) -> str:
    """Return a text that begins as hostile and ends with the old text and more."""
    return f"{TURNED}{text}{END}"[: most or len(END)]


def hostile(field: Field[Any, Any], value: Any) -> Any:
    """Return a hostile value for a column; the value itself if it has no free text."""
    if isinstance(field, CharField | TextField) and field.name in TEXTS and not (field.primary_key or field.choices):
        requested = value or (value is not None and field.name in FILLED) or (field.null and field.name in FILLED)
        return turned(value or "", field.max_length) if requested else value
    if isinstance(field, JSONField) and field.name in MAPPINGS and isinstance(value, dict):
        return value | {turned("key", 255): turned("value", 255)}
    if isinstance(field, JSONField) and field.name in LISTS and isinstance(value, list):
        return [*value, turned("text", 60)]
    return value


def turn_texts() -> None:
    """Make the free texts of all records hostile."""
    for model in models():
        for row in model._default_manager.all():
            changed = {
                field.attname: new
                for field in model._meta.concrete_fields
                if (new := hostile(field, old := getattr(row, field.attname))) != old
            }
            if changed:
                model._default_manager.filter(pk=row.pk).update(**changed)
