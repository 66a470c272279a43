"""The data of images that hosts fetch."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from compute_agent.contract.messages import Enrol
from provisioning.compute.models import Instance
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host
from provisioning.images.data import store
from provisioning.images.models import Image
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain

BITS = b"QFI\xfb" + bytes(range(256)) * 40


def joined(name: str) -> tuple[Host, str]:
    credential = secrets.token_hex(32)
    token = enrolment.create_join_token(name)
    return enrolment.enrol(Enrol(join_token=token, host=name, credential=credential)), credential


@pytest.fixture
def cloud(db: None, settings: Any, tmp_path: Path) -> Cloud:
    settings.IMAGE_DIR = tmp_path
    cloud = Cloud.make()
    path = store.path_of(cloud.image.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(BITS)
    cloud.image.size = len(BITS)
    cloud.image.save(update_fields=["size"])
    return cloud


def fetch(client: Client, instance_id: uuid.UUID, image_id: uuid.UUID, host: str, credential: str) -> Any:
    headers = {"authorization": f"Bearer {credential}", "x-novella-host": host}
    return client.get(f"/agent/v1/instances/{instance_id}/images/{image_id}", headers=headers)


def bits_of(response: Any) -> bytes:
    chunks: Iterable[bytes] = response.streaming_content if response.streaming else [response.content]
    return b"".join(chunks)


def being_built(cloud: Cloud) -> tuple[Instance, str]:
    """A server whose build its host has been given; with the host's new credential."""
    agent = cloud.add_host("h1")
    credential = secrets.token_hex(32)
    token = enrolment.create_join_token("h1")
    enrolment.enrol(Enrol(join_token=token, host="h1", credential=credential))
    instance = cloud.launch(context("alice"))
    drain()
    instance.refresh_from_db()
    assert (instance.task_state, instance.host_id) == ("spawning", agent.host.id)
    return instance, credential


@pytest.mark.slow
def test_the_builder_gets_the_bits_and_nobody_else(cloud: Cloud, client: Client) -> None:
    instance, credential = being_built(cloud)
    response = fetch(client, instance.id, cloud.image.id, "h1", credential)
    assert (response.status_code, bits_of(response)) == (200, BITS)
    assert response["Content-Length"] == str(len(BITS))
    assert fetch(client, instance.id, uuid.uuid4(), "h1", credential).status_code == 404
    _, other = joined("h2")
    assert fetch(client, instance.id, cloud.image.id, "h2", other).status_code == 404
    assert fetch(client, uuid.uuid4(), cloud.image.id, "h1", credential).status_code == 404
    assert fetch(client, instance.id, cloud.image.id, "h1", other).status_code == 401
    assert fetch(client, instance.id, cloud.image.id, "h1", "").status_code == 401
    assert client.get(f"/agent/v1/instances/{instance.id}/images/{cloud.image.id}").status_code == 401


def test_the_builder_gets_the_kernel_and_the_ramdisk_that_the_image_names(cloud: Cloud, client: Client) -> None:
    def make(disk_format: str, project_id: uuid.UUID, bits: bytes) -> Image:
        values = {"disk_format": disk_format, "container_format": disk_format, "status": Image.Status.ACTIVE}
        image = Image.objects.create(project_id=project_id, visibility="private", size=len(bits), **values)
        store.path_of(image.id).write_bytes(bits)
        return image

    project_id = context("alice").project_id
    assert project_id is not None
    kernel, ramdisk = make("aki", project_id, b"kernel"), make("ari", project_id, b"ramdisk")
    other = make("ari", project_id, b"another")
    cloud.image.properties = {"kernel_id": str(kernel.id), "ramdisk_id": str(ramdisk.id)}
    cloud.image.save(update_fields=["properties"])
    instance, credential = being_built(cloud)
    answers = [fetch(client, instance.id, image.id, "h1", credential) for image in (kernel, ramdisk, other)]
    assert [bits_of(answer) for answer in answers[:2]] == [b"kernel", b"ramdisk"]
    assert answers[2].status_code == 404


def test_a_finished_build_gets_no_more_bits(cloud: Cloud, client: Client) -> None:
    instance, credential = being_built(cloud)
    Instance.objects.filter(id=instance.id).update(vm_state="active", task_state=None)
    assert fetch(client, instance.id, cloud.image.id, "h1", credential).status_code == 404


def test_lost_bits_are_not_found(cloud: Cloud, client: Client) -> None:
    instance, credential = being_built(cloud)
    store.path_of(cloud.image.id).unlink()
    assert fetch(client, instance.id, cloud.image.id, "h1", credential).status_code == 404
