"""A host's word alone gives it no data of a server that it claims after a restore."""

from __future__ import annotations

import uuid

import pytest

from compute_agent.contract.power import PowerState
from provisioning.compute.models import BlockDevice, Instance
from provisioning.hosts import restored
from provisioning.images.models import Image
from tests.core.test_older_records import OFFLOADED, _nobody_works, a, newer, off, server
from tests.support.clouds import Cloud, state_of

__all__ = ["_nobody_works", "a", "server"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "only",
    [
        pytest.param("image", marks=pytest.mark.doctor_finds("newer_guests")),
        pytest.param("volume", marks=pytest.mark.doctor_finds("newer_guests", "shelves", "block_devices")),
    ],
)
def test_a_host_that_claims_a_shelved_server_after_a_restore_gets_no_data(
    cloud: Cloud, server: Instance, only: str
) -> None:
    off(cloud, server)
    if only == "volume":
        Instance.objects.update(snapshot_image_id=None)
        BlockDevice.objects.create(
            instance=server, position=0, source_type="volume", destination_type="volume", attachment_id=uuid.uuid4()
        )
    restored.after_restore()
    b = cloud.add_host("b")
    b.guests[str(server.id)] = (cloud.fresh(server).attempt - 1, PowerState.RUNNING)
    for _ in range(2):
        b.hello()
        b.measured()
    assert (state_of(server), cloud.fresh(server).host_id) == (OFFLOADED, None)
    assert [row[:2] for row in newer()] == [("b", "open")]
    assert Image.objects.filter(status="active", properties__image_type="snapshot").exists()
