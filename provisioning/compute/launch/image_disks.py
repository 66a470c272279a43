"""Disks described by images of volume-backed servers (property ``block_device_mapping``)."""

import json
from collections.abc import Mapping
from typing import Any

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.disks.volume_images import PROPERTY
from provisioning.compute.launch.request import DiskRequest

_TEXTS = {"device_name": 32, "disk_bus": 32, "device_type": 32, "guest_format": 32, "tag": 32, "volume_type": 255}
"""Field → maximum number of characters read."""


def disks_of(properties: Mapping[str, Any]) -> tuple[DiskRequest, ...]:
    """Return the disks in an image's block device mapping; empty for other images.

    Raises InvalidInputError for an invalid mapping; the image's owner can write any value.
    """
    text = properties.get(PROPERTY)
    if not text:
        return ()
    try:
        return tuple(_disk(entry) for entry in _entries(str(text)) if not entry.get("no_device"))
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError, RecursionError) as error:
        raise InvalidInputError("The image's block_device_mapping is invalid.", field="imageRef") from error


def _entries(text: str) -> list[Any]:
    entries = json.loads(text)
    if not isinstance(entries, list):
        raise TypeError(text)
    return entries


def _disk(entry: Mapping[str, Any]) -> DiskRequest:
    source, index, size = str(entry["source_type"]), entry.get("boot_index"), entry.get("volume_size")
    if (source, entry.get("destination_type")) not in {
        ("snapshot", "volume"),
        ("image", "volume"),
        ("blank", "volume"),
    }:
        raise ValueError(source)
    return DiskRequest(
        source_type=source,
        destination_type="volume",
        source_id=None if source == "blank" else _text(entry[f"{source}_id"], 64),
        boot_index=None if index is None else _number(index, least=-1),
        size=None if size is None else _number(size, least=1),
        delete_on_termination=entry.get("delete_on_termination") is True,
        **{name: _text(entry.get(name), longest) for name, longest in _TEXTS.items()},
    )


def _number(value: Any, *, least: int) -> int:
    number = int(value)
    if not least <= number <= MAX_INTEGER:
        raise ValueError(value)
    return number


def _text(value: Any, longest: int) -> str:
    text = str(value or "")[:longest]
    text.encode()  # raises ValueError for lone surrogates
    return text
