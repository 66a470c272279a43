"""The rows of data disks in the wizard: name, size and mount point of each."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.datastructures import MultiValueDict

from portal.dashboard.words.names import bdi
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.common.values.text import has_control_characters
from provisioning.launches.plans.plan import MOST_DISKS, DataDisk

LONGEST_NAME = 255
ROWS = 3
"""Rows without JavaScript; at least one is empty, unless the plan has the maximum."""


class DiskRows(forms.Widget):
    """Rows of inputs: ``disks_name``, ``disks_size`` and ``disks_mount``."""

    template_name = "dashboard/launch/_disk_rows.html"
    use_fieldset = True
    """Each input has its own label; the legend names the group."""

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> list[tuple[str, ...]]:
        """Return the typed rows that are not empty: name, size, directory."""
        sizes = _texts(data, f"{name}_size")
        names, mounts = ([*_texts(data, f"{name}_{part}"), *[""] * len(sizes)] for part in ("name", "mount"))
        rows = [tuple(text.strip() for text in row) for row in zip(names, sizes, mounts, strict=False)]
        return [row for row in rows if any(row)]

    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return f"{name}_size" not in data

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Add the rows, with empty ones at the end."""
        rows = [_row(each) for each in value or ()][:MOST_DISKS]
        rows += [("", "", "")] * max(min(ROWS - len(rows), MOST_DISKS - len(rows)), 1 if len(rows) < MOST_DISKS else 0)
        invalid = "aria-invalid" in (attrs or {})
        return {**super().get_context(name, value, attrs), "rows": rows, "name": name, "invalid": invalid}


class DiskRowsField(forms.Field):
    """Data disks, as ``DataDisk``."""

    widget = DiskRows

    def to_python(self, value: Any) -> tuple[DataDisk, ...]:
        if len(value or ()) > MOST_DISKS:
            raise ValidationError(f"At most {MOST_DISKS} data disks are possible.")
        return tuple(each if isinstance(each, DataDisk) else _disk(*each) for each in value or ())

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(initial != data)


def _disk(name: str, size: str, mount: str) -> DataDisk:
    if not size:
        raise ValidationError(f"Enter the size of the disk {bdi(name[:64]) if name else f'for {mount[:64]}'}.")
    if len(name) > LONGEST_NAME or has_control_characters(name):
        raise ValidationError(f"The name of a disk has at most {LONGEST_NAME} characters, without control characters.")
    if not re.fullmatch(r"[0-9]{1,10}", size, re.ASCII) or not 0 < int(size) <= MAX_INTEGER:
        raise ValidationError(f"{size[:32]} is not a size: enter a whole number of GiB.")
    return DataDisk(int(size), mount, name)


def _row(each: Any) -> tuple[str, ...]:
    return (each.name, str(each.size_gb), each.mount) if isinstance(each, DataDisk) else each


def _texts(data: Mapping[str, Any], name: str) -> Sequence[str]:
    if isinstance(data, MultiValueDict):
        return [str(each) for each in data.getlist(name)]
    value = data.get(name, ())
    return [value] if isinstance(value, str) else list(value)
