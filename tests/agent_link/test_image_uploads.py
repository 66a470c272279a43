"""The agents' door for the images they make: who may send what, and every answer a host must understand."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import Command, Enrol
from compute_agent.virt.fake import state
from portal.web.streams import BodyInterruptedError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.models import Instance
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host
from provisioning.images import services as images
from provisioning.images.models import Image
from tests.support.clouds import Cloud, context

DISK = state.qcow2(1 << 30)


class Door:
    """A host that was ordered to make an image, at the agents' address."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.client = cloud, Client(enforce_csrf_checks=True)
        self.agent = cloud.add_host("h1")
        self.alice = context("alice")
        self.server: Instance = cloud.launch(self.alice)
        cloud.run()
        self.credential = secrets.token_hex(32)
        Host.objects.filter(name="h1").update(credential_digest="")
        enrolment.enrol(Enrol(join_token=enrolment.create_join_token("h1"), host="h1", credential=self.credential))
        self.image_id = create_image(self.alice, self.server.id, "copy")
        self.command: Command
        (self.command,) = self.agent.take()

    def send(self, bits: bytes = DISK, *, image: uuid.UUID | None = None, **headers: str) -> Any:
        sent_headers = {"authorization": f"Bearer {self.credential}", "x-novella-host": "h1", **headers}
        return self.client.put(
            f"/agent/v1/instances/{self.server.id}/images/{image or self.image_id}",
            bits,
            content_type="application/octet-stream",
            headers=sent_headers,
        )

    @property
    def status(self) -> str:
        return Image.objects.get(id=self.image_id).status


@pytest.fixture
def door(db: None, settings: Any, tmp_path: Path) -> Door:
    settings.IMAGE_DIR = tmp_path
    return Door(Cloud.make())


@pytest.mark.slow
def test_the_data_is_taken_and_a_repeat_is_fine(door: Door) -> None:
    assert door.send().status_code == 204
    image = Image.objects.get(id=door.image_id)
    assert (image.status, image.size, image.virtual_size) == ("active", len(DISK), 1 << 30)
    assert door.send(b"the answer was lost").status_code == 204
    assert Image.objects.get(id=door.image_id).os_hash_value == image.os_hash_value
    door.agent.report(door.command, "finished", power_state=1)
    assert door.send().status_code == 404  # the order has ended


def test_strangers_and_other_hosts_send_nothing(door: Door) -> None:
    assert door.send(authorization="Bearer wrong").status_code == 401
    other = secrets.token_hex(32)
    enrolment.enrol(Enrol(join_token=enrolment.create_join_token("h2"), host="h2", credential=other))
    answer = door.send(**{"authorization": f"Bearer {other}", "x-novella-host": "h2"})
    assert answer.status_code == 404
    assert door.status == "queued"


def test_only_the_image_that_the_order_names_is_taken(door: Door) -> None:
    for image in (door.cloud.image.id, uuid.uuid4()):
        assert door.send(image=image).status_code == 404


def test_an_order_that_was_withdrawn_gives_no_right(door: Door) -> None:
    delete(door.alice, door.server.id)
    assert door.send().status_code == 404
    assert door.status == "deleted"


def test_a_deleted_image_takes_nothing(door: Door) -> None:
    images.delete(door.alice, door.image_id)
    answer = door.send()
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/plain")


def test_what_is_no_disk_is_refused_with_a_reason(door: Door) -> None:
    answer = door.send(b"no disk at all" * 1000)
    assert answer.status_code == 400
    assert answer.content
    assert door.status == "queued"
    backed = bytearray(DISK)
    backed[8:20] = (512).to_bytes(8, "big") + (10).to_bytes(4, "big")
    assert door.send(bytes(backed)).status_code == 400
    assert door.send().status_code == 204


def test_an_image_that_is_too_large_is_refused_for_good(door: Door, settings: Any) -> None:
    settings.MAX_IMAGE_SIZE = 1 << 16
    assert door.send().status_code == 413


def test_an_upload_under_way_is_a_reason_to_try_again(door: Door) -> None:
    Image.objects.filter(id=door.image_id).update(status="saving")
    assert door.send().status_code == 409


def test_data_that_breaks_off_leaves_the_image_waiting(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(_: object) -> Iterator[bytes]:
        yield DISK[:1000]
        raise BodyInterruptedError

    monkeypatch.setattr("portal.agents.images.body_of", half)
    assert door.send().status_code == 503
    assert door.status == "queued"


@pytest.mark.parametrize("method", ["post", "delete", "patch"])
def test_there_is_no_other_way_in(door: Door, method: str) -> None:
    assert (
        getattr(door.client, method)(f"/agent/v1/instances/{door.server.id}/images/{door.image_id}").status_code == 405
    )


def test_the_order_has_what_is_requested(door: Door) -> None:
    assert door.command.body == SnapshotRequest(image_id=str(door.image_id), disk_format="qcow2", stop=False)
