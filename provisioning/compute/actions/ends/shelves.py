"""A server is off its shelf again, where it was or on another host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provisioning.compute import instance_actions, state
from provisioning.compute.models import Instance
from provisioning.compute.snapshot_images import remove_image
from provisioning.network import services as network

OFF_THE_SHELF: dict[str, Any] = {
    "snapshot_image_id": None,
    "shelved_at": None,
    "excluded_hosts": [],
    "requested_host": "",
}


def came_back(instance: Instance, changes: Mapping[str, Any]) -> None:
    """End an unshelving whose guest a host has built; the image it came from goes."""
    image_id = instance.snapshot_image_id
    back = state.advance(instance, "unshelved", attempt=instance.attempt, changes={**changes, **OFF_THE_SHELF})
    if back is None:
        return
    network.set_ports_status(back.id, "ACTIVE")
    instance_actions.finish(back.id, "unshelve")
    if image_id is not None:
        remove_image(image_id)
