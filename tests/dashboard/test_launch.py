"""The wizard."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from provisioning.compute.launch.dry_run import MOST_SHOWN
from provisioning.compute.launch.flavor_choices import FlavorChoice
from provisioning.compute.models import BlockDevice, Instance, KeyPair
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.compute.services.server_groups import create_server_group
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.launches.plans.plan import DataDisk
from provisioning.network import services as network
from provisioning.network.models import FloatingIP, SecurityGroup
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.models import Volume
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud

PATH = "/instances/launch/"
TIMES = "\N{MULTIPLICATION SIGN}"


def typed(cloud: Cloud, **changes: Any) -> dict[str, Any]:
    """What the browser sends when somebody has filled the wizard in."""
    return {
        "name": "web",
        "image": str(cloud.image.id),
        "flavor": "1",
        "key_name": "",
        "count": "1",
        "networks": [str(cloud.network.id)],
        "idempotency_key": "key-1",
        **changes,
    }


def refused(client: Client, fields: dict[str, Any]) -> dict[str, str]:
    """Send the wizard and return its errors; nothing is kept."""
    answer = client.post(PATH, fields)
    assert answer.status_code == 422
    assert not Instance.objects.exists()
    return dict(answer.context["form"].notices)


@pytest.mark.slow
def test_it_opens_with_something_that_can_be_launched(at_alice: Client, cloud: Cloud) -> None:
    form = at_alice.get(PATH).context["form"]
    chosen = [form[field].value() for field in ("image", "flavor", "networks")]
    assert chosen == [str(cloud.image.id), "1", [str(cloud.network.id)]]
    name = form["name"].value()
    answer = at_alice.post(PATH, {**typed(cloud), "name": name})
    assert answer.status_code == 303
    assert Instance.objects.get().name == name


@pytest.mark.slow
def test_it_opens_with_what_one_chose_last(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    for name in ("a-key", "b-key"):
        at_alice.post("/key-pairs/create/", {"name": name, "how": "make"})
    Image.objects.create(
        project_id=alice.project_id, name="a-first", status="active", disk_format="raw", visibility="private"
    )
    first = at_alice.get(PATH).context["wizard"]
    assert (first.image.name, first.chosen("key_name")) == ("a-first", "a-key")
    at_alice.post(PATH, typed(cloud, key_name="b-key"))
    again = at_alice.get(PATH).context["wizard"]
    assert (again.image.name, again.chosen("key_name")) == ("small", "b-key")
    Image.objects.filter(name="small").update(status="deleted")
    assert at_alice.get(PATH).context["wizard"].image.name == "a-first"


@pytest.mark.slow
def test_it_opens_with_few_queries_however_many_sizes_there_are(
    at_alice: Client, operator: Person, cloud: Cloud, django_assert_num_queries: Callable[..., object]
) -> None:
    """The hosts are read once for all sizes."""
    at_alice.get(PATH)
    for number in range(10):
        create_flavor(operator.context, FlavorRequest(f"m2.{number}", 1, 64 + number, 1))
    with django_assert_num_queries(26):  # type: ignore[attr-defined]
        at_alice.get(PATH)


def test_everything_typed_arrives(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    at_alice.post("/key-pairs/create/", {"name": "laptop", "how": "make"})
    group = network.ensure_default_security_group(alice.project_id)
    answer = at_alice.post(
        PATH,
        typed(
            cloud,
            key_name="laptop",
            description="The shop",
            metadata="role = web\r\n\r\nowner=red=team",
            user_data="#!/bin/sh\r\necho hi\r\n",
            config_drive="on",
            availability_zone="nova",
            security_groups=[str(group.id)],
        ),
    )
    made = Instance.objects.get()
    assert answer.headers["Location"] == f"/instances/{made.id}/"
    assert (made.key_name, made.description, made.config_drive) == ("laptop", "The shop", True)
    assert made.metadata == {"role": "web", "owner": "red=team"}
    assert base64.b64decode(made.user_data or "") == b"#!/bin/sh\necho hi\n"
    assert made.availability_zone == "nova"
    assert made.security_groups == [str(group.id)]
    assert made.project_id == alice.project_id


def test_several_lead_to_the_list(at_alice: Client, cloud: Cloud) -> None:
    answer = at_alice.post(PATH, typed(cloud, count="3"))
    assert answer.headers["Location"] == "/instances/"
    assert sorted(Instance.objects.values_list("name", flat=True)) == ["web-1", "web-2", "web-3"]


def test_sending_it_twice_launches_once(at_alice: Client, cloud: Cloud) -> None:
    first, second = (at_alice.post(PATH, typed(cloud)) for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]
    assert Instance.objects.count() == 1
    assert at_alice.post(PATH, typed(cloud, idempotency_key="key-2")).status_code == 303
    assert Instance.objects.count() == 2


def test_a_key_of_somebody_else_repeats_nothing(
    at_alice: Client, signed_in: SignedIn, charlie: Person, cloud: Cloud
) -> None:
    at_alice.post(PATH, typed(cloud))
    signed_in(charlie).post(PATH, typed(cloud))
    assert Instance.objects.count() == 2


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"image": ""}, "image"),
        ({"image": "nonsense"}, "image"),
        ({"flavor": ""}, "flavor"),
        ({"flavor": "99"}, "flavor"),
        ({"key_name": "unknown"}, "key_name"),
        ({"networks": ["e0f2f7a4-0000-0000-0000-000000000000"]}, "networks"),
        ({"security_groups": ["unknown"]}, "security_groups"),
        ({"availability_zone": "moon"}, "availability_zone"),
        ({"count": "0"}, "count"),
        ({"count": "many"}, "count"),
        ({"count": "99999"}, "count"),
        ({"count": "9" * 5000}, "count"),
        ({"metadata": "no sign"}, "metadata"),
        ({"metadata": f"k={'v' * 256}"}, "metadata"),
        ({"user_data": "#" * 60_000}, "user_data"),
        ({"description": "x" * 256}, "description"),
    ],
)
def test_what_is_wrong_is_reported_at_its_field(
    at_alice: Client, cloud: Cloud, changes: dict[str, Any], place: str
) -> None:
    assert list(refused(at_alice, typed(cloud, **changes))) == [place]


@pytest.mark.slow
def test_full_quota_says_what_to_do_before_anything_is_chosen(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    """Nothing is chosen then, and to ask for a choice would be to ask for what cannot be done."""
    set_limit(alice.project_id, "instances", 0)
    assert "ask an operator for a larger quota" in at_alice.get(PATH).content.decode()
    errors = refused(at_alice, typed(cloud, flavor=""))
    assert list(errors) == ["flavor"]
    assert "ask an operator for a larger quota" in errors["flavor"]


def test_what_was_typed_stays_when_something_is_wrong(at_alice: Client, cloud: Cloud) -> None:
    page = at_alice.post(PATH, typed(cloud, name="", metadata="a=b", flavor="2")).content.decode()
    assert re.search(r'name="flavor" value="2"[^>]* checked', page)
    assert ">\na=b</textarea>" in page
    assert 'value="key-1"' in page


def test_over_quota_names_the_limit(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    set_limit(alice.project_id, "instances", 2)
    errors = refused(at_alice, typed(cloud, count="3"))
    assert errors == {"quota": "The project's quota is exceeded. Instances: 0 of 2 used, 3 more requested."}


@pytest.mark.slow
def test_what_belongs_to_others_does_not_exist(
    at_alice: Client, signed_in: SignedIn, charlie: Person, cloud: Cloud
) -> None:
    private = Image.objects.create(
        project_id=charlie.project_id, name="secret", status="active", visibility="private", disk_format="raw"
    )
    net = network.create_network(charlie.project_id, "secret-net")
    network.create_subnet(net, "10.77.0.0/24")
    group = network.ensure_default_security_group(charlie.project_id)
    signed_in(charlie).post("/key-pairs/create/", {"name": "charlies", "how": "make"})
    page = at_alice.get(PATH).content.decode()
    assert "secret" not in page
    assert "charlies" not in page
    for changes, place in (
        ({"image": str(private.id)}, "image"),
        ({"networks": [str(net.id)]}, "networks"),
        ({"security_groups": [str(group.id)]}, "security_groups"),
        ({"key_name": "charlies"}, "key_name"),
    ):
        assert list(refused(at_alice, typed(cloud, **changes))) == [place]


def test_a_reader_cannot_launch(signed_in: SignedIn, bob: Person, cloud: Cloud) -> None:
    client = signed_in(bob)
    assert client.get(PATH).status_code == 403
    assert client.post(PATH, typed(cloud)).status_code == 403
    assert client.post(f"{PATH}quote/", typed(cloud)).status_code == 403
    assert not Instance.objects.exists()


def test_without_images_it_says_where_they_come_from(at_alice: Client, cloud: Cloud) -> None:
    Image.objects.all().delete()
    assert "/images/upload/" in at_alice.get(PATH).content.decode()


# --- while choices change --------------------------------------------------------------------------------------------


def quote(client: Client, fields: dict[str, Any]) -> Any:
    answer = client.post(f"{PATH}quote/", fields, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert not Instance.objects.exists()
    return answer


def test_the_quota_a_choice_would_use_is_drawn(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    set_limit(alice.project_id, "cores", 10)
    instances, cores, memory = quote(at_alice, typed(cloud, flavor="2", count="2")).context["meters"]
    assert (instances.this_text, instances.left_text) == ("+ 2", "8 left")
    assert (cores.this_text, cores.left_text, cores.this_width, cores.over) == ("+ 8", "2 left", 80.0, False)
    assert memory.this_text == "+ 8\N{NO-BREAK SPACE}GiB"


def test_too_much_is_drawn_as_too_much(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    set_limit(alice.project_id, "cores", 6)
    answer = quote(at_alice, typed(cloud, flavor="2", count="2"))
    cores = answer.context["meters"][1]
    assert (cores.over, cores.left_text) == (True, "2 over the limit")
    assert cores.this_left + cores.this_width == 100
    assert "quota" in dict(answer.context["form"].notices)


def test_a_notice_names_its_field(at_alice: Client, cloud: Cloud) -> None:
    notices = refused(at_alice, typed(cloud, name="", count="0"))
    assert (notices["name"].partition(":")[0], notices["count"].partition(":")[0]) == ("Name", "Number of instances")


def test_sizes_that_do_not_fit_say_why(at_alice: Client, alice: Person, operator: Person, cloud: Cloud) -> None:
    create_flavor(operator.context, FlavorRequest("m1.nano", 1, 32, 1, flavorid="0"))
    set_limit(alice.project_id, "cores", 3)
    choices = {choice.flavor.name: choice for choice in quote(at_alice, typed(cloud)).context["wizard"].flavors}
    assert "needs 64 MiB of memory" in choices["m1.nano"].reason
    assert choices["m1.big"].reason == "Over quota: 3 vCPUs left, 4 needed."
    assert choices["m1.small"].reason == ""


def sizes(answer: Any) -> dict[str, FlavorChoice]:
    return {choice.flavor.name: choice for choice in answer.context["wizard"].flavors}


@pytest.mark.slow
def test_sizes_say_how_many_find_a_place(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    rooms = {name: choice.room for name, choice in sizes(at_alice.get(PATH)).items()}
    assert rooms == {"m1.small": 8, "m1.big": 2}
    cloud.launch(alice.context, flavor_ref="2")
    cloud.run()
    rooms = {name: choice.room for name, choice in sizes(at_alice.get(PATH)).items()}
    assert rooms == {"m1.small": 4, "m1.big": 1}


@pytest.mark.slow
def test_the_figure_is_the_scheduler_s(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    """As many as it says find a place, and no more."""
    foretold = sizes(at_alice.get(PATH))["m1.big"].room
    for number in range(4):
        cloud.launch(alice.context, flavor_ref="2", name=f"big-{number}")
        cloud.run()
    assert Instance.objects.filter(vm_state="active").count() == foretold == 2


def test_counting_stops_where_it_is_nobody_s_business(at_alice: Client, cloud: Cloud) -> None:
    cloud.add_host("second")
    answer = at_alice.get(PATH)
    assert sizes(answer)["m1.small"].room == MOST_SHOWN
    assert f"fits {TIMES}{MOST_SHOWN}+" in answer.content.decode()


@pytest.mark.slow
def test_what_finds_no_place_says_why_in_a_short_sentence(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    for number in range(2):
        cloud.launch(alice.context, flavor_ref="2", name=f"big-{number}")
        cloud.run()
    answer = at_alice.get(PATH)
    big = sizes(answer)["m1.big"]
    assert (big.room, big.reason) == (0, "")
    assert big.full.startswith("No hosts have enough ")
    assert "requested, " in big.full
    assert f"fits {TIMES}0" in answer.content.decode()
    assert "host-1" not in answer.content.decode()


def test_a_cloud_without_hosts(at_alice: Client, cloud: Cloud) -> None:
    Host.objects.all().delete()
    assert sizes(at_alice.get(PATH))["m1.small"].full == "There are no hosts in this cloud yet."


@pytest.mark.slow
def test_the_figure_follows_image_zone_group_and_count(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    cloud.add_host("second", zone="other")
    group = create_server_group(alice.context, "apart", "anti-affinity")
    assert sizes(quote(at_alice, typed(cloud)))["m1.big"].room == 4
    assert sizes(quote(at_alice, typed(cloud, availability_zone="other")))["m1.big"].room == 2
    assert sizes(quote(at_alice, typed(cloud, server_group=str(group.id))))["m1.big"].room == 2
    few = sizes(quote(at_alice, typed(cloud, count="5")))["m1.big"]
    assert few.full == "Only 4 of 5 would fit now."
    Image.objects.filter(id=cloud.image.id).update(properties={"hw_architecture": "s390x"})
    none = sizes(quote(at_alice, typed(cloud)))["m1.big"]
    assert (none.room, none.full[:25]) == (0, "No hosts have the process")


def test_a_scheduler_that_fails_does_not_keep_the_wizard_shut(
    at_alice: Client, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a filter of the operators' own")

    monkeypatch.setattr("provisioning.compute.launch.flavor_choices.how_many", broken)
    answer = at_alice.get(PATH)
    assert answer.status_code == 200
    assert sizes(answer)["m1.small"].room is None
    assert f"fits {TIMES}" not in answer.content.decode()
    assert "could not count what would fit" in caplog.text


@pytest.mark.slow
def test_a_server_group_is_joined(at_alice: Client, alice: Person, charlie: Person, cloud: Cloud) -> None:
    assert 'name="server_group"' not in at_alice.get(PATH).content.decode()
    group = create_server_group(alice.context, "apart", "anti-affinity")
    other = create_server_group(charlie.context, "theirs", "affinity")
    page = at_alice.get(PATH).content.decode()
    assert 'name="server_group"' in page
    assert "apart (anti-affinity)" in page
    assert "theirs" not in page
    assert list(refused(at_alice, typed(cloud, server_group=str(other.id)))) == ["server_group"]
    assert list(refused(at_alice, typed(cloud, server_group="nonsense"))) == ["server_group"]
    assert at_alice.post(PATH, typed(cloud, server_group=str(group.id))).status_code == 303
    assert Instance.objects.get().server_group == group


def test_an_empty_name_is_no_complaint_while_one_types(at_alice: Client, cloud: Cloud) -> None:
    assert quote(at_alice, typed(cloud, name="")).context["form"].errors == {}


# --- a key pair without leaving ---------------------------------------------------------------------------------------


def test_a_new_key_is_chosen_and_its_private_half_shown_once(at_alice: Client, cloud: Cloud) -> None:
    answer = at_alice.post(f"{PATH}keys/", {"key_new_name": "laptop", "key_new_public": ""})
    page = answer.content.decode()
    assert "BEGIN OPENSSH PRIVATE KEY" in page
    assert "no-store" in answer.headers["Cache-Control"]
    assert re.search(r'name="key_name" value="laptop"[^>]* checked', page)
    assert "PRIVATE KEY" not in at_alice.get(PATH).content.decode()
    assert "PRIVATE" not in KeyPair.objects.get().public_key


def test_a_key_that_cannot_be_read_is_refused_where_it_stands(at_alice: Client, cloud: Cloud) -> None:
    answer = at_alice.post(f"{PATH}keys/", {"key_new_name": "laptop", "key_new_public": "ssh-rsa nonsense"})
    assert list(answer.context["new_key"].errors) == ["key_new_public"]
    assert "ssh-rsa nonsense" in answer.content.decode()
    assert not KeyPair.objects.exists()


# ----- access, disks, end and names ----------------------------------------------------------------------------------


def test_a_launch_without_a_key_shows_a_password_once(at_alice: Client, cloud: Cloud) -> None:
    first = at_alice.post(PATH, typed(cloud, password="on"))
    assert (first.status_code, first["Cache-Control"]) == (200, "no-store")
    assert len(first.context["password"]) >= 12
    assert first.context["password"] in first.content.decode()
    server = Instance.objects.get()
    assert first.context["to"] == f"/instances/{server.id}/"
    again = at_alice.post(PATH, typed(cloud, password="on"))
    assert (again.status_code, again["Location"]) == (303, f"/instances/{server.id}/")


def test_an_instance_that_nobody_can_enter_is_reported_in_the_summary(at_alice: Client, cloud: Cloud) -> None:
    assert 'data-place="log_in"' in at_alice.post(f"{PATH}quote/", typed(cloud)).content.decode()
    for way in ({"password": "on"}, {"user_data": "#!/bin/sh"}, {"snippets": ["nginx"]}):
        assert 'data-place="log_in"' not in at_alice.post(f"{PATH}quote/", typed(cloud, **way)).content.decode()


@pytest.mark.slow
def test_one_tick_makes_it_reachable(at_alice: Client, alice: Person, operator: Person, cloud: Cloud) -> None:
    fields = typed(cloud, reachable="on", openings=["ssh", "web"], snippets=["updates"])
    assert refused(at_alice, fields).keys() == {"reachable"}
    assert not SecurityGroup.objects.filter(name__startswith="internet").exists()
    outside = network.create_network(operator.project_id, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    router = network.create_router(operator.project_id, gateway=network.Gateway(outside))
    network.add_interface_by_subnet(router, cloud.network.subnets.get(), anywhere=True)
    assert at_alice.post(PATH, fields).status_code == 303
    server = Instance.objects.get()
    assert FloatingIP.objects.get().with_instance == server.id
    assert SecurityGroup.objects.filter(id__in=server.security_groups, name="internet-ssh-web").exists()
    form = at_alice.get(PATH, {"again": str(server.id)}).context["form"]
    assert (form["reachable"].value(), list(form["openings"].value())) == (True, ["ssh", "web"])
    assert list(form["snippets"].value()) == ["updates"]
    page = at_alice.get(f"/launch-templates/create/?server={server.id}")
    stored = json.loads(page.context["form"]["plan"].value())
    assert {"reachable": True, "openings": ["ssh", "web"], "snippets": ["updates"]}.items() <= stored.items()
    assert not SecurityGroup.objects.filter(id__in=stored["security_groups"], name__startswith="internet").exists()


def test_disks_lease_and_tags_arrive(at_alice: Client, cloud: Cloud) -> None:
    more = {"disks_size": ["5", "", "7"], "disks_mount": ["/srv/data", "", ""], "lease_days": "7", "tags": "a, b,a"}
    assert at_alice.post(PATH, typed(cloud, **more)).status_code == 303
    server = Instance.objects.get()
    assert list(BlockDevice.objects.filter(instance=server).order_by("position").values_list("size", flat=True)) == [
        5,
        7,
    ]
    assert (server.tags, server.lease.days) == (["a", "b"], 7)


@pytest.mark.slow
def test_data_disks_are_named_by_the_user_or_after_their_instance(at_alice: Client, cloud: Cloud) -> None:
    cloud.agents["host-1"].serve()
    more = {"disks_name": ["db", "", ""], "disks_size": ["1", "2", ""], "disks_mount": ["", "/srv", ""]}
    answer = at_alice.post(f"{PATH}quote/", typed(cloud, name="web", count="2", **more))
    shown = [each.replace("\N{NO-BREAK SPACE}", " ") for each in answer.context["wizard"].disks]
    assert shown == ["db-1 1 GiB", "web-1-data-2 2 GiB at /srv"]
    copied = at_alice.post(PATH, typed(cloud, name="web", count="2", copy_as="1", **more)).content.decode()
    assert "db-2, web-2-data-2" in copied
    assert at_alice.post(PATH, typed(cloud, name="web", count="2", **more)).status_code == 303
    cloud.run()
    assert set(Volume.objects.values_list("name", flat=True)) == {"db-1", "web-1-data-2", "db-2", "web-2-data-2"}
    again = at_alice.get(PATH, {"again": str(Instance.objects.get(name="web-1").id)}).context["form"]
    assert again["disks"].value() == (DataDisk(1, "", "db-1"), DataDisk(2, "/srv"))


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"disks_name": "x", "disks_size": "", "disks_mount": ""}, "disks"),
        ({"disks_name": "x" * 256, "disks_size": "1", "disks_mount": ""}, "disks"),
        ({"disks_name": "a\0b", "disks_size": "1", "disks_mount": ""}, "disks"),
        ({"disks_size": "", "disks_mount": "/srv"}, "disks"),
        ({"disks_size": "-1", "disks_mount": "/srv"}, "disks"),
        ({"disks_size": "1", "disks_mount": "srv"}, "disks"),
        ({"disks_size": ["1"] * 9, "disks_mount": [""] * 9}, "disks"),
        ({"disks_size": "5000", "disks_mount": ""}, "disks"),
        ({"lease_days": "soon"}, "lease_days"),
        ({"lease_days": "9999"}, "lease_days"),
        ({"tags": "a/b"}, "tags"),
        ({"snippets": "gone"}, "snippets"),
    ],
)
def test_a_wrong_choice_is_reported_at_its_field(
    at_alice: Client, cloud: Cloud, changes: dict[str, Any], place: str
) -> None:
    assert refused(at_alice, typed(cloud, **changes)).keys() == {place}


def test_the_names_of_several_are_shown(at_alice: Client, cloud: Cloud) -> None:
    answer = at_alice.post(f"{PATH}quote/", typed(cloud, name="web-{n}-x", count="5"))
    names = answer.context["wizard"].names
    assert (names[:2], names[-1]) == (["web-1-x", "web-2-x"], "web-5-x")
    assert not at_alice.post(f"{PATH}quote/", typed(cloud)).context["wizard"].names


@pytest.mark.parametrize("chosen", [True, False])
def test_the_choice_of_a_password_is_repeated(at_alice: Client, cloud: Cloud, *, chosen: bool) -> None:
    at_alice.post(PATH, typed(cloud, **({"password": "on"} if chosen else {})))
    server = Instance.objects.get()
    assert at_alice.get(PATH, {"again": str(server.id)}).context["form"]["password"].value() is chosen
    page = at_alice.get(f"/launch-templates/create/?server={server.id}")
    assert bool(json.loads(page.context["form"]["plan"].value()).get("password")) is chosen


def test_a_launch_with_disks_is_repeated_with_the_users_own_data(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    at_alice.post(
        PATH, typed(cloud, user_data="#!/bin/sh\necho hi", disks_size="1", disks_mount="/srv", lease_days="3")
    )
    again = at_alice.get(PATH, {"again": str(Instance.objects.get().id)})
    form = again.context["form"]
    assert form["user_data"].value() == "#!/bin/sh\necho hi"
    assert form["disks"].value() == (DataDisk(1, "/srv"),)
    assert form["lease_days"].value() == "3"
    assert 'value="/srv"' in again.content.decode()
