"""Accepting a launch: what is written, what is refused and why, and that a refusal leaves nothing behind."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django_q.models import OrmQ

from compute_agent.guest_data import meta_data
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NovellaError, OverQuotaError
from provisioning.common.lists.listing import Sort
from provisioning.compute import selectors
from provisioning.compute.actions.delete import delete
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.launch.create import check_launch, launch
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Flavor, Instance, InstanceAction
from provisioning.compute.services.flavors import FlavorRequest, create_flavor, delete_flavor
from provisioning.compute.services.instances import update
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.compute.services.metadata import set_metadata
from provisioning.events.models import Event
from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.network.models import SecurityGroup
from provisioning.quotas.models import Reservation
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from tests.support.clouds import ADMIN, GIB, Cloud, base64_of, context

pytestmark = pytest.mark.django_db


def test_an_accepted_launch_is_one_record_one_event_one_job(cloud: Cloud, alice: RequestContext) -> None:
    key, _ = create_key_pair(alice, "laptop")
    (instance,) = launch(
        alice,
        cloud.request(
            name="  Wëb server_1 ",
            key_name="laptop",
            metadata={"role": "web"},
            tags=("a", "b"),
            description="first",
            user_data=base64_of(10),
            config_drive=True,
        ),
    )
    row = Instance.objects.get(id=instance.id)
    assert (row.name, row.hostname, row.description) == ("Wëb server_1", "web-server-1", "first")
    assert (row.vm_state, row.task_state, row.attempt, row.version) == ("building", "scheduling", 1, 1)
    assert row.task_deadline is not None
    assert (row.key_name, row.public_key) == ("laptop", key.public_key)
    assert (row.image_id, row.image_name) == (cloud.image.id, "small")
    assert row.flavor["memory_mb"] == 1024
    assert row.flavor["disk_gb"] == 2
    assert row.requested_networks == [{"network_id": str(cloud.network.id), "port_id": None, "fixed_ip": None}]
    group = SecurityGroup.objects.get(project_id=alice.project_id)
    assert (group.name, row.security_groups) == ("default", [str(group.id)])
    assert usage_of(row.project_id)["cores"] == 1
    assert OrmQ.objects.count() == 1
    assert Event.objects.filter(topic=f"project:{alice.project_id}").count() == 1
    action = InstanceAction.objects.get()
    assert (action.action, action.request_id, action.events.get().name) == ("create", alice.request_id, "api_create")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ssh", "x509"])
def test_the_guest_gets_the_key_as_it_was_sent(cloud: Cloud, alice: RequestContext, kind: str) -> None:
    made, _ = create_key_pair(alice, "made", type=kind)
    create_key_pair(alice, "sent", f"{made.public_key}\n", kind)
    (instance,) = launch(alice, cloud.request(key_name="sent"))
    spec = guest_spec(Instance.objects.get(id=instance.id))
    assert (spec.project_id, spec.user_id) == (instance.project_id.hex, instance.user_id.hex)
    data = meta_data(spec)
    assert data["public_keys"] == {"sent": f"{made.public_key}\n"}
    assert data["keys"] == [{"name": "sent", "type": kind, "data": f"{made.public_key}\n"}]
    assert data["project_id"] == instance.project_id.hex


def counts() -> tuple[int, ...]:
    models: list[Any] = [Instance, InstanceAction, OrmQ, SecurityGroup]
    events, held = Event.objects.filter(kind="instance"), Reservation.objects.filter(resource="instances")
    return (events.count(), held.count(), *(model.objects.count() for model in models))


@pytest.fixture
def nothing_kept() -> Iterator[None]:
    before = counts()
    yield
    assert counts() == before, "a refused launch has left something behind"


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("unknown image", {"image_id": str(uuid.uuid4())}, "imageRef"),
    ("an image that is no id", {"image_id": "../../etc/passwd"}, "imageRef"),
    ("an empty image", {"image_id": ""}, "imageRef"),
    ("unknown flavor", {"flavor_ref": "99"}, "flavorRef"),
    ("unknown network", {"networks": (NetworkRequest(network_id=str(uuid.uuid4())),)}, "networks"),
    ("a network that is no id", {"networks": (NetworkRequest(network_id="x"),)}, "networks"),
    ("an interface without anything", {"networks": (NetworkRequest(),)}, "networks"),
    ("unknown port", {"networks": (NetworkRequest(port_id=str(uuid.uuid4())),)}, "networks"),
    ("unknown key", {"key_name": "nobody's"}, "key_name"),
    ("an empty key name", {"key_name": ""}, "key_name"),
    ("unknown security group", {"security_groups": ("nobody's",)}, "security_groups"),
    ("unknown zone", {"availability_zone": "moon"}, "availability_zone"),
    ("empty name", {"name": ""}, "name"),
    ("blank name", {"name": "   "}, "name"),
    ("long name", {"name": "x" * 256}, "name"),
    ("a name with a line break", {"name": "a\nb"}, "name"),
    ("a name with NUL", {"name": "a\x00b"}, "name"),
    ("a bad host name", {"hostname": "-x-"}, "hostname"),
    ("a long host name", {"hostname": "x" * 64}, "hostname"),
    ("a long description", {"description": "x" * 256}, "description"),
    ("user data that is not base64", {"user_data": "%%%"}, "user_data"),
    ("user data with broken padding", {"user_data": "abc"}, "user_data"),
    ("too much user data", {"user_data": base64_of(49_152)}, "user_data"),
    ("a long metadata key", {"metadata": {"k" * 256: "v"}}, "metadata"),
    ("an empty metadata key", {"metadata": {"": "v"}}, "metadata"),
    ("a long metadata value", {"metadata": {"k": "v" * 256}}, "metadata"),
    ("metadata that is no text", {"metadata": {"k": 1}}, "metadata"),
    ("a tag with a slash", {"tags": ("a/b",)}, "tags"),
    ("a long tag", {"tags": ("t" * 61,)}, "tags"),
    ("too many tags", {"tags": tuple(f"t{number}" for number in range(51))}, "tags"),
    ("none at all", {"min_count": 0, "max_count": 0}, "min_count"),
    ("far too many", {"max_count": 10_000}, "max_count"),
]


@pytest.mark.parametrize(("change", "field"), [pytest.param(change, field, id=name) for name, change, field in BAD])
def test_bad_input_is_refused_naming_the_field(
    cloud: Cloud, alice: RequestContext, nothing_kept: None, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        launch(alice, cloud.request(**change))
    assert caught.value.field == field
    assert len(caught.value.message) > 10
    with pytest.raises(InvalidInputError) as again:
        check_launch(alice, cloud.request(**change))
    assert again.value.message == caught.value.message


def test_user_data_of_exactly_the_limit_is_taken(cloud: Cloud, alice: RequestContext) -> None:
    text = base64_of(49_149)
    assert len(text) == 65_532
    assert cloud.launch(alice, user_data=text).user_data == text


def test_another_projects_things_look_as_if_they_did_not_exist(
    cloud: Cloud, alice: RequestContext, charlie: RequestContext
) -> None:
    private = network.create_network(charlie.project_id or uuid.uuid4(), "private")
    network.create_subnet(private, "10.30.0.0/24")
    image = Image.objects.create(
        project_id=charlie.project_id or uuid.uuid4(), status="active", disk_format="raw", visibility="private", size=1
    )
    group = network.ensure_default_security_group(charlie.project_id or uuid.uuid4())
    create_key_pair(charlie, "theirs")
    before = counts()
    pairs: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
        ({"image_id": str(image.id)}, {"image_id": str(uuid.UUID(int=7))}, str(image.id), str(uuid.UUID(int=7))),
        (
            {"networks": (NetworkRequest(network_id=str(private.id)),)},
            {"networks": (NetworkRequest(network_id=str(uuid.UUID(int=7))),)},
            str(private.id),
            str(uuid.UUID(int=7)),
        ),
        ({"security_groups": (str(group.id),)}, {"security_groups": ("x",)}, str(group.id), "x"),
        ({"key_name": "theirs"}, {"key_name": "x"}, "theirs", "x"),
    ]
    for theirs, nobodys, their_id, nobodys_id in pairs:
        with pytest.raises(InvalidInputError) as foreign:
            launch(alice, cloud.request(**theirs))
        with pytest.raises(InvalidInputError) as unknown:
            launch(alice, cloud.request(**nobodys))
        assert foreign.value.message.replace(their_id, "_") == unknown.value.message.replace(nobodys_id, "_")
        assert foreign.value.field == unknown.value.field
    assert counts() == before


def test_a_private_flavor_is_for_those_who_were_given_it(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    flavor = create_flavor(operator, FlavorRequest("secret", 1, 128, 2, flavorid="s", is_public=False))
    with pytest.raises(InvalidInputError) as caught:
        cloud.launch(alice, flavor_ref="s")
    assert caught.value.field == "flavorRef"
    assert "s" not in [row.flavorid for row in selectors.flavors_for(alice)]
    flavor.access.create(project_id=alice.project_id)
    assert cloud.launch(alice, flavor_ref="s").flavor["memory_mb"] == 128


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"min_ram": 2048}, "2048 MiB of memory"),
        ({"min_disk": 3}, "disk of 3 GiB"),
        ({"virtual_size": 3 * GIB}, "3 GiB large"),
        ({"size": 2 * GIB + 1, "virtual_size": None}, "3 GiB large"),
    ],
)
def test_an_image_that_does_not_fit_the_flavor(
    cloud: Cloud, alice: RequestContext, nothing_kept: None, image: dict[str, Any], words: str
) -> None:
    Image.objects.filter(id=cloud.image.id).update(**image)
    with pytest.raises(InvalidInputError, match=words) as caught:
        cloud.launch(alice)
    assert caught.value.field == "flavorRef"


def test_a_flavor_without_disk_counts_the_images_size(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    create_flavor(operator, FlavorRequest("diskless", 1, 128, 0, flavorid="0", ephemeral_gb=1, swap_mb=100))
    Image.objects.filter(id=cloud.image.id).update(virtual_size=3 * GIB - 1)
    assert cloud.launch(context("alice", ADMIN), flavor_ref="0").flavor["disk_gb"] == 3 + 1 + 1


@pytest.mark.parametrize("status", ["queued", "saving", "killed", "deleted"])
def test_an_image_without_data_is_refused(cloud: Cloud, alice: RequestContext, nothing_kept: None, status: str) -> None:
    Image.objects.filter(id=cloud.image.id).update(status=status)
    with pytest.raises(InvalidInputError) as caught:
        cloud.launch(alice)
    assert caught.value.field == "imageRef"


# ----- quota ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "limit", "used", "requested"), [("instances", 1, 1, 1), ("cores", 1, 1, 1), ("ram", 1500, 1024, 1024)]
)
def test_over_quota_leaves_nothing_behind(
    cloud: Cloud, alice: RequestContext, resource: str, limit: int, used: int, requested: int
) -> None:
    set_limit(alice.project_id, resource, limit)
    cloud.launch(alice)
    before = counts()
    with pytest.raises(OverQuotaError) as caught:
        cloud.launch(context("alice"))
    error = caught.value
    assert (error.resource, error.limit, error.used, error.requested) == (resource, limit, used, requested)
    assert counts() == before


def test_the_quote_says_what_a_launch_would_take(cloud: Cloud, alice: RequestContext) -> None:
    before = counts()
    quote = check_launch(alice, cloud.request(flavor_ref="2", max_count=9))
    assert quote.amounts == {"instances": 1, "cores": 4, "ram": 4096, "ports": 1, "fixed_ips": 1}
    assert (quote.limits["cores"], quote.usage["cores"], quote.count) == (20, 0, 5)
    assert counts() == before


def test_several_at_once_are_numbered(cloud: Cloud, alice: RequestContext) -> None:
    rows = launch(alice, cloud.request(name="n" * 255, min_count=3, max_count=3, hostname="h"))
    assert [row.name for row in rows] == ["n" * 253 + f"-{number}" for number in (1, 2, 3)]
    assert [row.hostname for row in rows] == ["h-1", "h-2", "h-3"]
    assert [row.launch_index for row in rows] == [0, 1, 2]
    assert len({row.reservation_id for row in rows}) == 1
    assert OrmQ.objects.count() == 3


def test_as_many_as_the_quota_allows_but_no_fewer_than_asked(cloud: Cloud, alice: RequestContext) -> None:
    set_limit(alice.project_id, "instances", 3)
    assert len(launch(alice, cloud.request(min_count=1, max_count=5))) == 3
    with pytest.raises(OverQuotaError):
        launch(context("alice"), cloud.request(min_count=1, max_count=5))
    set_limit(alice.project_id, "instances", 5)
    with pytest.raises(OverQuotaError) as caught:
        launch(context("alice"), cloud.request(min_count=3, max_count=5))
    assert (caught.value.used, caught.value.requested, caught.value.limit) == (3, 3, 5)
    assert Instance.objects.count() == 3


def test_metadata_beyond_the_limit(cloud: Cloud, alice: RequestContext, nothing_kept: None) -> None:
    with pytest.raises(OverQuotaError, match="metadata_items"):
        cloud.launch(alice, metadata={f"key{number}": "" for number in range(129)})


# ----- networks -------------------------------------------------------------------------------------------------------


def test_two_networks_have_to_be_chosen_from(cloud: Cloud, alice: RequestContext, nothing_kept: None) -> None:
    other = network.create_network(alice.project_id or uuid.uuid4(), "other")
    network.create_subnet(other, "10.31.0.0/24")
    with pytest.raises(ConflictError, match="Multiple possible networks") as caught:
        cloud.launch(alice)
    assert caught.value.field == "networks"


def test_none_is_a_server_without_an_interface(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice, networks="none")
    cloud.run()
    assert (cloud.fresh(instance).vm_state, cloud.fresh(instance).requested_networks) == ("active", [])


@pytest.mark.slow
def test_a_fixed_address_and_a_port_are_used(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    port = network.create_port(
        alice.project_id or uuid.uuid4(), cloud.network, fixed_ips=[{"ip_address": "10.20.0.99"}]
    )
    requested = (
        NetworkRequest(network_id=str(cloud.network.id), fixed_ip="10.20.0.77"),
        NetworkRequest(port_id=str(port.id)),
    )
    instance = cloud.launch(alice, networks=requested)
    cloud.run()
    assert cloud.fresh(instance).vm_state == "active"
    port.refresh_from_db()
    assert port.device_id == instance.id
    with pytest.raises(NovellaError, match="in use"):
        cloud.launch(context("alice"), networks=requested[:1])
    with pytest.raises(NovellaError, match="in use"):
        cloud.launch(context("alice"), networks=requested[1:])
    delete(context("alice"), instance.id)
    cloud.run()
    port.refresh_from_db()
    assert (port.device_id, port.fixed_ips.get().address) == (None, "10.20.0.99")


def test_a_token_without_a_project_launches_nothing(cloud: Cloud, alice: RequestContext) -> None:
    with pytest.raises(ForbiddenError):
        cloud.launch(RequestContext(user_id=alice.user_id, user_name="alice", project_id=None))


# ----- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hostname"),
    [
        ("web", "web"),
        ("My Web.Server_2", "my-web-server-2"),
        ("Ünïcode", "unicode"),
        ("x" * 100, "x" * 63),
        ("-.-a-.-", "a"),
        ("$(reboot)", "reboot"),
    ],
)
def test_host_names_are_made_of_names(cloud: Cloud, alice: RequestContext, name: str, hostname: str) -> None:
    assert cloud.launch(alice, name=name).hostname == hostname


@pytest.mark.parametrize("name", ["日本語", "12345", "---", "🚀"])
def test_a_name_that_gives_no_host_name_gets_one_from_the_id(cloud: Cloud, alice: RequestContext, name: str) -> None:
    instance = cloud.launch(alice, name=name)
    assert instance.hostname == f"server-{instance.id}"
    assert len(instance.hostname) <= 63


def test_renaming_and_metadata(cloud: Cloud, alice: RequestContext, charlie: RequestContext) -> None:
    instance = cloud.launch(alice)
    assert update(alice, instance.id, name="new", description="text").version == 2
    assert update(alice, instance.id, description=None).description is None
    assert Event.objects.filter(topic=f"project:{alice.project_id}").count() == 3
    with pytest.raises(InstanceBusyError):
        set_metadata(alice, instance.id, {"a": "1"})
    with pytest.raises(InvalidInputError):
        update(alice, instance.id, name=" ")
    with pytest.raises(NovellaError):
        update(charlie, instance.id, name="mine")
    assert cloud.fresh(instance).name == "new"


# ----- lists ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_lists_are_narrowed_sorted_and_paged(cloud: Cloud, alice: RequestContext, charlie: RequestContext) -> None:
    names = ["b", "a", "c", "d"]
    rows = {name: cloud.launch(context("alice"), name=name) for name in names}
    foreign = cloud.launch(charlie)
    assert [row.name for row in selectors.instances_for(alice)] == ["d", "c", "a", "b"]
    by_name = [Sort("display_name", descending=False)]
    first = selectors.instances_for(alice, sort=by_name, limit=2)
    assert [row.name for row in first] == ["a", "b"]
    assert [row.name for row in selectors.instances_for(alice, sort=by_name, marker=first[-1].id)] == ["c", "d"]
    assert [row.name for row in selectors.instances_for(alice, name="C")] == ["c"]
    assert len(selectors.instances_for(alice, status="build")) == 4
    assert selectors.instances_for(alice, status="ACTIVE") == selectors.instances_for(alice, status="nonsense") == []
    assert selectors.instances_for(alice, ids=[rows["a"].id, foreign.id]) == [rows["a"]]
    assert selectors.instances_for(alice, flavor_id="2") == selectors.instances_for(alice, image_id="nonsense") == []
    with pytest.raises(InvalidInputError):
        selectors.instances_for(alice, marker=uuid.uuid4())
    with pytest.raises(InvalidInputError):
        selectors.instances_for(alice, marker=foreign.id)
    with pytest.raises(InvalidInputError):
        selectors.instances_for(alice, sort=[Sort("user_data", descending=False)])
    with pytest.raises(ForbiddenError):
        selectors.instances_for(alice, all_projects=True)


@pytest.mark.slow
def test_a_list_takes_one_query_however_long(
    cloud: Cloud, alice: RequestContext, django_assert_num_queries: Any
) -> None:
    cloud.add_host("kelvin")
    for _ in range(5):
        cloud.launch(context("alice"))
    cloud.run()
    with django_assert_num_queries(1):
        assert [row.host and row.host.name for row in selectors.instances_for(alice)] == ["kelvin"] * 5


# ----- key pairs and flavors ------------------------------------------------------------------------------------------


def test_base64_helper_is_honest() -> None:
    assert len(base64.b64decode(base64_of(49_152))) == 49_152


def test_flavors_are_made_and_removed_by_operators(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    with pytest.raises(ForbiddenError):
        create_flavor(alice, FlavorRequest("x", 1, 1, 1))
    with pytest.raises(ConflictError) as caught:
        create_flavor(operator, FlavorRequest("m1.small", 1, 1, 1))
    assert caught.value.field == "name"
    with pytest.raises(ConflictError) as caught:
        create_flavor(operator, FlavorRequest("new", 1, 1, 1, flavorid="1"))
    assert caught.value.field == "id"
    for bad in ({"vcpus": 0}, {"memory_mb": 0}, {"root_gb": -1}, {"vcpus": 2**31}, {"name": ""}, {"flavorid": "a/b"}):
        with pytest.raises(InvalidInputError):
            create_flavor(operator, FlavorRequest(**{"name": "n", "vcpus": 1, "memory_mb": 1, "root_gb": 1, **bad}))
    instance = cloud.launch(alice)
    delete_flavor(operator, "1")
    assert not Flavor.objects.filter(flavorid="1").exists()
    assert cloud.fresh(instance).flavor["name"] == "m1.small"
