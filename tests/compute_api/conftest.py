"""A small cloud with one host, and the cast as clients of the Compute API."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from provisioning.compute.models import Instance, InstanceTag
from provisioning.volumes.models import Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.support.cast import Api, People, Person
from tests.support.clouds import Cloud
from tests.support.standing import derived, standing

V21 = "/compute/v2.1"
NEWEST = {"OpenStack-API-Version": "compute 2.96"}


@pytest.fixture
@standing
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1")
    return cloud


@pytest.fixture
@derived
def api(people: People) -> Api:
    """Alice at the oldest microversion."""
    return Api(people.alice)


@pytest.fixture
@derived
def new_api(people: People) -> Api:
    """Alice at the newest microversion."""
    return Api(people.alice, **NEWEST)


def server_body(cloud: Cloud, **changes: Any) -> dict[str, Any]:
    server = {"name": "web", "imageRef": str(cloud.image.id), "flavorRef": "1", **changes}
    return {"server": {key: value for key, value in server.items() if value is not None}}


def launch(api: Api, cloud: Cloud, **changes: Any) -> str:
    """Launch over HTTP and let the cloud come to rest; returns the server's id."""
    answer = api.post(f"{V21}/servers", server_body(cloud, **changes))
    assert answer.status_code == 202, answer.content
    cloud.run()
    return str(answer.json()["server"]["id"])


def new_volume(people: People, cloud: Cloud, size: int = 1, **wanted: Any) -> Volume:
    made = Create.begin(people.alice.context, VolumeRequest(size_gb=size, **wanted))
    cloud.run()
    made.refresh_from_db()
    assert made.status == "available"
    return made


@pytest.fixture
@standing
def server(api: Api, cloud: Cloud) -> str:
    """The id of a running server of alice's."""
    return launch(api, cloud)


@pytest.fixture
@standing
def volume(people: People, cloud: Cloud) -> Volume:
    """A volume of alice's, in a cloud that has a pool."""
    return new_volume(people, cloud)


FLAVOR = {
    "flavorid": "1",
    "name": "m1.small",
    "vcpus": 1,
    "memory_mb": 1024,
    "root_gb": 2,
    "ephemeral_gb": 0,
    "swap_mb": 0,
    "extra_specs": {},
    "disk_gb": 2,
}
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def put_server(person: Person, name: str = "web", *, age: int = 0, **columns: Any) -> Instance:
    """Write a server's row without any host: active, made ``age`` seconds after EPOCH."""
    moment = EPOCH + timedelta(seconds=age)
    values: dict[str, Any] = {
        "project_id": person.project_id,
        "user_id": person.user_id,
        "name": name,
        "hostname": name.lower(),
        "vm_state": "active",
        "task_state": None,
        "power_state": 1,
        "image_id": uuid.UUID(int=7),
        "flavor": FLAVOR,
        "reservation_id": "r-00000000",
        "request_id": "req-1",
        "created_at": moment,
        "updated_at": moment,
        **columns,
    }
    if values["vm_state"] == "deleted":
        values.setdefault("deleted_at", moment)
    instance = Instance.objects.create(**values)
    InstanceTag.objects.bulk_create([InstanceTag(instance=instance, tag=tag) for tag in instance.tags])
    return instance
