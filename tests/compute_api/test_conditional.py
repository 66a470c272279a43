"""ETags of lists: 304 for who has the list already, cheap, and never when it would be another."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from portal.api.common import conditional
from portal.api.compute.resources.flavors import FlavorsView
from portal.api.compute.servers.views import ServersView
from portal.api.image.images import views as image_views
from provisioning.compute.models import BlockDevice, Flavor, Instance, InstanceFault
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup
from tests.compute_api.conftest import NEWEST, V21, launch
from tests.compute_api.test_proxies import make_image
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.slow]
LISTS = [f"{V21}/servers", f"{V21}/servers/detail", f"{V21}/flavors", f"{V21}/flavors/detail", "/image/v2/images"]


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    conditional.remembered.clear()


class Client:
    """Somebody who asks for a list again and again, and shows what it has."""

    def __init__(self, api: Api, path: str) -> None:
        self.api, self.path = api, path
        answer = api.get(path)
        self.tag, self.body = answer.headers["ETag"], answer.content

    def asks(self) -> int:
        """Ask with the ETag; what is believed then is what the list is."""
        answer = self.api.get(self.path, If_None_Match=self.tag)
        if answer.status_code == 200:
            self.tag, self.body = answer.headers["ETag"], answer.content
        else:
            assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", self.tag)
        assert self.body == self.api.get(self.path).content
        return int(answer.status_code)


@pytest.mark.parametrize("path", LISTS)
def test_who_has_a_list_gets_no_body_and_nothing_is_made_again(
    new_api: Api, cloud: Cloud, people: People, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(Api(people.alice), cloud)
    make_image(people.alice, "mine")
    client = Client(new_api, path)
    assert [client.asks() for _ in range(3)] == [304, 304, 304]

    def nobody(*_: object, **__: object) -> None:
        raise AssertionError

    for owner, name in ((ServersView, "_shapes"), (FlavorsView, "shapes"), (image_views, "shape_for")):
        monkeypatch.setattr(owner, name, nobody)
    with CaptureQueriesContext(connection) as queries:
        answer = new_api.get(path, If_None_Match=client.tag)
    assert answer.status_code == 304
    assert len(queries) <= 9
    assert new_api.head(path, If_None_Match=client.tag).status_code == 304
    for same in (f"W/{client.tag}", f'"other", {client.tag}'):
        assert new_api.get(path, If_None_Match=same).status_code == 304


def rename_network(ident: str, people: People) -> None:
    Network.objects.update(name="renamed")


def give_floating_ip(ident: str, people: People) -> None:
    port = Port.objects.get(device_id=ident)
    fixed = port.fixed_ips.get()
    FixedIP.objects.filter(pk=fixed.pk).update(address="10.20.0.77", number=fixed.number + 50)


CHANGES: list[Callable[[str, People], Any]] = [
    lambda ident, _: Instance.objects.filter(id=ident).update(name="other"),
    lambda ident, _: Instance.objects.filter(id=ident).update(task_state="rebooting"),
    lambda ident, _: Instance.objects.filter(id=ident).update(metadata={"a": "b"}),
    lambda ident, _: Host.objects.update(availability_zone="moon"),
    lambda ident, _: Host.objects.update(name="other"),
    lambda ident, _: SecurityGroup.objects.update(name="other"),
    lambda ident, _: BlockDevice.objects.create(
        instance_id=ident, volume_id=uuid.uuid4(), destination_type="volume", attachment_id=uuid.uuid4(), plugged=True
    ),
    rename_network,
    give_floating_ip,
    lambda ident, _: Port.objects.filter(device_id=ident).update(mac_address="fa:16:3e:00:00:99"),
    lambda ident, _: Instance.objects.filter(id=ident).update(vm_state="deleted"),
]


def test_whatever_changes_a_list_is_seen_at_once_whoever_did_it(new_api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(Api(people.alice), cloud)
    clients = [Client(new_api, f"{V21}/servers/detail"), Client(new_api, f"{V21}/servers/detail?limit=1&name=.*")]
    for change in CHANGES:
        for client in clients:
            assert [client.asks(), client.asks()] == [304, 304]
        change(ident, people)
        for client in clients:
            assert client.asks() == 200, change


def test_what_comes_back_is_known_again(new_api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(Api(people.alice), cloud)
    client = Client(new_api, f"{V21}/servers")
    first = client.tag
    Instance.objects.filter(id=ident).update(name="other")
    assert client.asks() == 200
    Instance.objects.filter(id=ident).update(name="web")
    assert new_api.get(client.path, If_None_Match=first).status_code == 304
    assert client.asks() == 200


def test_a_fault_and_images_and_flavors_are_seen(new_api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(Api(people.alice), cloud)
    image = make_image(people.alice, "mine")
    servers, flavors, images = (Client(new_api, path) for path in (LISTS[1], LISTS[3], LISTS[4]))
    Instance.objects.filter(id=ident).update(vm_state="error")
    assert [servers.asks(), flavors.asks(), images.asks()] == [200, 304, 304]
    InstanceFault.objects.create(instance_id=ident, code=500, message="No.")
    assert servers.asks() == 200
    Flavor.objects.filter(flavorid="1").update(extra_specs={"a": "b"})
    Image.objects.filter(id=image.id).update(properties={"a": "b"})
    assert [servers.asks(), flavors.asks(), images.asks()] == [304, 200, 200]
    Flavor.objects.filter(flavorid="2").update(is_public=False)
    Image.objects.filter(id=cloud.image.id).update(visibility="private")
    assert [flavors.asks(), images.asks()] == [200, 200]


def test_an_answer_belongs_to_who_asks_for_it_as_it_was_asked(
    new_api: Api, cloud: Cloud, people: People, settings: Settings
) -> None:
    launch(Api(people.alice), cloud)
    for path in LISTS[:2]:
        client = Client(new_api, path)
        assert [client.asks(), client.asks()] == [304, 304]
        other, old = Api(people.charlie, **NEWEST), {"OpenStack_API_Version": "compute 2.1"}
        assert other.get(path, If_None_Match=client.tag).status_code == 200
        assert Api(None).get(path, If_None_Match=client.tag).status_code == 401
        assert new_api.get(f"{path}?limit=5&name=nobody", If_None_Match=client.tag).status_code == 200
        if path.endswith("detail"):
            assert new_api.get(path, If_None_Match=client.tag, **old).status_code == 200
        assert new_api.get(path, If_None_Match='"nothing"').status_code == 200
        assert new_api.get(path, If_None_Match="*").status_code == 304


def test_other_rules_make_another_list(
    cloud: Cloud, people: People, settings: Settings, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch(Api(people.alice), cloud)
    api = Api(people.alice, **NEWEST)
    client = Client(api, f"{V21}/servers/detail")
    assert [client.asks(), client.asks()] == [304, 304]
    file = tmp_path / "policy.yaml"
    file.write_text('"os_compute_api:os-extended-server-attributes": "role:member"\n')
    settings.POLICY_FILE = str(file)
    policy.load()
    assert client.asks() == 200
    assert b"OS-EXT-SRV-ATTR:host" in client.body


def test_what_the_time_of_day_changes_is_made_each_time(cloud: Cloud, people: People) -> None:
    launch(Api(people.alice), cloud)
    client = Client(Api(people.operator, **NEWEST), f"{V21}/servers/detail?all_tenants=1")
    assert b'"host_status":"UP"' in client.body
    assert [client.asks(), client.asks()] == [304, 304]
    Host.objects.update(last_seen_at=None)
    assert client.asks() == 200


def test_much_is_not_remembered(new_api: Api, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "MOST_REMEMBERED", 6000)
    paths = [f"{V21}/servers?limit={number}" for number in range(1, 40)]
    for path in paths:
        assert Client(new_api, path).asks() == 304
    kept = conditional.remembered._reads.values()
    assert 0 < sum(each.weight for each in kept) == conditional.remembered._weight <= 6000
    monkeypatch.setattr(conditional, "MOST_OF_ONE", 10)
    before = len(kept)
    assert Client(new_api, f"{V21}/servers?limit=99").asks() == 304
    assert len(kept) == before


@each_row(
    ("path", "tagged"),
    [
        ("/compute/", True),
        ("/compute/v2.1/", True),
        ("/compute/v2/", True),
        ("/identity/v3", True),
        ("/network/", True),
        ("/network/v2.0", True),
        ("/volume/v3/", True),
        ("/identity/", False),
        ("/image/", False),
        ("/volume/", False),
    ],
)
def test_version_documents_have_one_too_where_they_are_a_200(path: str, tagged: bool) -> None:
    nobody = Api(None)
    answer = nobody.get(path)
    assert ("ETag" in answer.headers) is tagged is (answer.status_code == 200)
    again = nobody.get(path, If_None_Match=answer.headers.get("ETag", "*"))
    assert again.status_code == (304 if tagged else answer.status_code)
