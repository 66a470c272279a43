"""openstacksdk's proxies as the tests use them: which methods were asked for, and which are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.support.one_machine import PATIENCE, OneMachine, wait_for

SHARES = "shared file systems came with 2.97"
VOLUMES = "volumes come with the volume service"
NOWHERE = "the SDK asks for an address that the reference does not have"
WAITS = "only asks again what others asked"
NOT_CALLED = {
    "create_share_attachment": SHARES,
    "delete_share_attachment": SHARES,
    "get_share_attachment": SHARES,
    "share_attachments": SHARES,
    "create_volume_attachment": VOLUMES,
    "update_volume_attachment": VOLUMES,
    "delete_volume_attachment": VOLUMES,
    "get_volume_attachment": VOLUMES,
    "wait_for_status": WAITS,
    "wait_for_delete": WAITS,
    "find_extension": NOWHERE,
    "get_server_migration": "no live migration goes on: guests have disks of their own host",
    "abort_server_migration": "no live migration goes on: guests have disks of their own host",
    "force_complete_server_migration": "no live migration goes on: guests have disks of their own host",
}
CACHE = "there is no cache of images before the store"
LOCATIONS = "the store refers to no data elsewhere"
NOT_CALLED_IMAGE = {
    **dict.fromkeys(
        (
            "get_image_cache",
            "cache_delete_image",
            "queue_image",
            "clear_cache",
            "cached_image_nodes",
            "clean_cache",
            "prune_cache",
        ),
        CACHE,
    ),
    "add_image_location": LOCATIONS,
    "create_task": "asks for an import as import_image does",
    "wait_for_task": WAITS,
    "wait_for_status": WAITS,
    "wait_for_delete": WAITS,
}
NOT_CALLED_NETWORK = {
    "add_gateway_to_router": NOWHERE,
    "remove_gateway_from_router": NOWHERE,
    "wait_for_status": WAITS,
    "wait_for_delete": WAITS,
}
CONSISTENCY = "consistency groups are deprecated in Cinder; groups are in their place"
NOT_CALLED_VOLUME = {
    **dict.fromkeys(
        (
            "consistency_groups",
            "consistency_group_snapshots",
            "create_consistency_group",
            "create_consistency_group_from_source",
            "create_consistency_group_snapshot",
            "delete_consistency_group",
            "delete_consistency_group_snapshot",
            "find_consistency_group",
            "find_consistency_group_snapshot",
            "get_consistency_group",
            "get_consistency_group_snapshot",
            "update_consistency_group",
        ),
        CONSISTENCY,
    ),
    **dict.fromkeys(
        ("get_backup_metadata", "fetch_backup_metadata", "set_backup_metadata", "delete_backup_metadata"), NOWHERE
    ),
    "wait_for_status": WAITS,
}


class Spy:
    """A proxy that remembers which of its methods were asked for."""

    def __init__(self, proxy: Any) -> None:
        self.proxy, self.used = proxy, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(self.proxy, name)


def methods(proxy: type) -> set[str]:
    return {name for name, value in vars(proxy).items() if not name.startswith("_") and callable(value)}


def connect(cloud: OneMachine, name: str = "admin", **more: Any) -> Connection:
    config = OpenStackConfig(config_files=[str(cloud.data / "clouds.yaml")])
    return Connection(config=config.get_one(name, **more))


class Parts:
    """What a server is made of, and how to wait for it."""

    def __init__(self, conn: Connection) -> None:
        self.conn, self.compute = conn, Spy(conn.compute)
        self.image = conn.image.find_image("novella-guest", ignore_missing=False)
        self.network = conn.network.find_network("demo-net", ignore_missing=False)
        self.nano = self.compute.find_flavor("m1.nano", ignore_missing=False)
        self.micro = self.compute.find_flavor("m1.micro", ignore_missing=False)

    def server(self, name: str, **more: Any) -> Any:
        made = self.compute.create_server(
            name=name,
            image_id=self.image.id,
            flavor_id=self.nano.id,
            networks=[{"uuid": self.network.id}],
            **more,
        )
        return self.compute.wait_for_server(made, interval=0.2, wait=int(PATIENCE))

    def until(self, server: Any, status: str) -> Any:
        def there() -> Any:
            result = self.compute.get_server(server.id)
            return result if result.status == status and not result.task_state else None

        return wait_for(f"{server.name} is {status}", there)


def refused(status: int, call: Callable[[], Any]) -> None:
    with pytest.raises(exceptions.HttpException) as caught:
        call()
    assert caught.value.status_code == status, caught.value
