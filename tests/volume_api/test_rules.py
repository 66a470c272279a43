"""Rules of an operator's file about volumes: several servers have one, it grows while one has it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.compute.models import Flavor
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, Extend
from tests.volume_api.conftest import V3, World, at

pytestmark = pytest.mark.django_db
NEWEST = at("3.70")


@pytest.fixture
def operators_only(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    monkeypatch.setattr(policy, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(policy, "AT_REST", 0.0)
    names = ("volume:multiattach", "volume:extend_attached_volume")
    settings.POLICY_FILE.write_text("".join(f'"{name}": "role:admin"\n' for name in names))


def _shared_type(world: World) -> None:
    body = {"volume_type": {"name": "many", "extra_specs": {"multiattach": "<is> True"}}}
    assert world.operator.post(f"{V3}/types", body).status_code == 200


def _refused(answer: Any, rule: str) -> None:
    assert (answer.status_code, rule in answer.content.decode()) == (403, True), answer.content


@pytest.mark.slow
@pytest.mark.usefixtures("operators_only")
def test_a_type_that_several_servers_share_is_for_who_may(world: World) -> None:
    _shared_type(world)
    requested = {"volume": {"size": 1, "volume_type": "many"}}
    _refused(world.alice.post(f"{V3}/volumes", requested), "volume:multiattach")
    plain = world.make()
    retype = {"os-retype": {"new_type": "many"}}
    _refused(world.alice.post(f"{V3}/volumes/{plain}/action", retype), "volume:multiattach")
    assert not world.show(plain)["multiattach"]
    assert world.show(world.make(world.operator, volume_type="many"))["multiattach"]


@pytest.mark.usefixtures("operators_only")
def test_a_server_s_new_disk_is_shared_only_for_who_may(world: World) -> None:
    _shared_type(world)
    disk = {"boot_index": -1, "source_type": "blank", "destination_type": "volume", "volume_size": 1}
    image, flavor = str(Image.objects.get().id), Flavor.objects.values_list("flavorid", flat=True)[0]
    body = {"name": "s", "imageRef": image, "flavorRef": flavor, "networks": "none"}
    requested = {"server": body | {"block_device_mapping_v2": [disk | {"volume_type": "many"}]}}
    newest = {"OpenStack_API_Version": "compute 2.96"}
    _refused(world.alice.post("/compute/v2.1/servers", requested, **newest), "volume:multiattach")
    alice = world.people.alice
    cloud_itself = RequestContext(user_id=alice.user_id, user_name="novella", project_id=alice.project_id)
    assert Create.begin(cloud_itself, VolumeRequest(size_gb=1, volume_type="many")).multiattach


@pytest.mark.usefixtures("operators_only")
def test_a_volume_that_a_server_has_grows_for_who_may(world: World) -> None:
    ident = world.make()
    assert world.act(ident, "os-attach", {"instance_uuid": str(uuid.uuid4()), "mountpoint": "/dev/vdb"}) == 202
    grow = {"os-extend": {"new_size": 2}}
    _refused(world.alice.post(f"{V3}/volumes/{ident}/action", grow, **NEWEST), "volume:extend_attached_volume")
    with pytest.raises(ForbiddenError):  # as the dashboard asks it
        Extend.begin(world.people.alice.context, ident, 2)
    assert (world.show(ident)["status"], world.show(ident)["size"]) == ("in-use", 1)
