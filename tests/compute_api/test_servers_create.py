"""What a launch over HTTP may say, from which microversion on, and what comes of it at the host."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest
from pytest_django import Settings

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import BuildRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.compute.models import Flavor, Instance, InstanceTag, ServerGroup
from provisioning.hosts.commands import opened
from provisioning.hosts.models import Host, HostCommand
from provisioning.identity import policy
from provisioning.network import services as network
from provisioning.network.models import FixedIP, Port
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, launch, server_body
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def response_of(api: Api, cloud: Cloud, version: str = "2.96", hints: Any = None, **changes: Any) -> Any:
    if tuple(map(int, version.split("."))) >= (2, 37):
        changes.setdefault("networks", "auto")
    body = server_body(cloud, **changes) | ({"os:scheduler_hints": hints} if hints is not None else {})
    return api.post(f"{V21}/servers", body, OpenStack_API_Version=f"compute {version}")


def accepted(api: Api, cloud: Cloud, version: str = "2.96", **changes: Any) -> Instance:
    answer = response_of(api, cloud, version, **changes)
    assert answer.status_code == 202, answer.content
    return Instance.objects.get(id=answer.json()["server"]["id"])


def refusal(answer: Any) -> str:
    assert answer.status_code == 400, answer.content
    assert Instance.objects.count() == 0
    return str(answer.json()["badRequest"]["message"])


def spec_of(instance: Instance) -> InstanceSpec:
    """What the host is told to build; before it has done so."""
    drain()
    order = HostCommand.objects.get(subject_id=instance.id, kind="build_request")
    body = opened(decode_command_body(order.body))
    assert isinstance(body, BuildRequest)
    return body.instance


FIELDS: dict[str, tuple[int, dict[str, Any]]] = {
    "description": (19, {"description": "text"}),
    "tags": (52, {"tags": ["a"]}),
    "trusted_image_certificates": (63, {"trusted_image_certificates": ["c1"]}),
    "host": (74, {"host": "h1"}),
    "hypervisor_hostname": (74, {"hypervisor_hostname": "h1"}),
    "hostname": (90, {"hostname": "db"}),
    "host name with a domain": (94, {"hostname": "db.example.org"}),
}


@pytest.mark.slow
@each_row("case", FIELDS)
def test_fields_are_taken_from_their_microversion(cloud: Cloud, people: People, case: str) -> None:
    since, changes = FIELDS[case]
    admin = Api(people.operator)
    message = refusal(response_of(admin, cloud, f"2.{since - 1}", **changes))
    assert next(iter(changes)) in message
    accepted(admin, cloud, f"2.{since}", **changes)


@each_row(
    ("version", "taken"),
    [("2.31", False), ("2.32", True), ("2.36", True), ("2.37", False), ("2.41", False), ("2.42", True)],
)
def test_interfaces_have_tags_in_some_microversions(api: Api, cloud: Cloud, version: str, taken: bool) -> None:
    interfaces = [{"uuid": str(cloud.network.id), "tag": "dmz"}]
    if not taken:
        assert "tag" in refusal(response_of(api, cloud, version, networks=interfaces))
        return
    instance = accepted(api, cloud, version, networks=interfaces)
    assert [port.tag for port in spec_of(instance).ports] == ["dmz"]


def test_personality_is_written_into_the_guest_until_2_56(api: Api, cloud: Cloud) -> None:
    file = {"path": "/etc/motd", "contents": base64.b64encode(b"hello").decode()}
    assert "personality" in refusal(response_of(api, cloud, "2.57", personality=[file]))
    instance = accepted(api, cloud, "2.56", personality=[file])
    [written] = spec_of(instance).injected_files
    assert (written.path, base64.b64decode(written.contents)) == ("/etc/motd", b"hello")


@pytest.mark.parametrize(
    ("files", "resource"),
    [
        ([{"path": f"/{number}", "contents": ""} for number in range(6)], "injected_files"),
        ([{"path": "/a", "contents": base64.b64encode(b"x" * 10_241).decode()}], "injected_file_content_bytes"),
        ([{"path": "/" * 256, "contents": ""}], "injected_file_path_bytes"),
    ],
)
def test_personality_is_limited_by_the_quota(
    api: Api, cloud: Cloud, files: list[dict[str, str]], resource: str
) -> None:
    answer = response_of(api, cloud, "2.1", personality=files)
    assert answer.status_code == 403
    assert resource in answer.json()["forbidden"]["message"]
    assert Instance.objects.count() == 0


@each_row(
    "file",
    [{"path": "/a"}, {"path": "/a", "contents": "!!"}, {"path": "", "contents": ""}, {"path": "/a\nb", "contents": ""}],
)
def test_wrong_personality_is_400(api: Api, cloud: Cloud, file: dict[str, str]) -> None:
    refusal(response_of(api, cloud, "2.1", personality=[file]))


def test_a_password_is_reported_once_and_reaches_the_host(api: Api, cloud: Cloud) -> None:
    answer = response_of(api, cloud, "2.1", adminPass="s3cret phrase")
    assert answer.json()["server"]["adminPass"] == "s3cret phrase"
    instance = Instance.objects.get(id=answer.json()["server"]["id"])
    assert instance.admin_password
    assert "s3cret" not in instance.admin_password
    assert spec_of(instance).admin_password == "s3cret phrase"
    assert "s3cret" not in HostCommand.objects.get(subject_id=instance.id).body
    cloud.run()
    assert cloud.fresh(instance).admin_password == "", "nothing is kept of it"
    assert "s3cret" not in api.get(f"{V21}/servers/{instance.id}").content.decode()


def test_a_password_is_made_where_the_operator_wants_it(api: Api, cloud: Cloud, settings: Settings) -> None:
    made = [response_of(api, cloud, "2.1").json()["server"]["adminPass"] for _ in range(2)]
    assert made[0] != made[1]
    assert all(len(password) == 12 for password in made)
    settings.ENABLE_INSTANCE_PASSWORD = False
    answer = response_of(api, cloud, "2.1")
    assert "adminPass" not in answer.json()["server"]
    assert spec_of(Instance.objects.get(id=answer.json()["server"]["id"])).admin_password is None


def test_addresses_and_partitions_are_kept(api: Api, cloud: Cloud) -> None:
    fields = {"accessIPv4": "192.0.2.9", "accessIPv6": "2001:db8::9", "OS-DCF:diskConfig": "AUTO"}
    answer = response_of(api, cloud, "2.1", **fields)
    assert answer.json()["server"]["OS-DCF:diskConfig"] == "AUTO"
    shown = api.get(f"{V21}/servers/{answer.json()['server']['id']}").json()["server"]
    assert {name: shown[name] for name in fields} == fields


@pytest.mark.slow
def test_an_address_is_kept_shown_and_found_in_its_usual_form(api: Api, cloud: Cloud, people: People) -> None:
    usual, forms = "2001:db8::9", ("2001:DB8:0:0::9", "2001:0db8::0009")
    answer = response_of(api, cloud, "2.1", accessIPv6=forms[0])
    path = f"{V21}/servers/{answer.json()['server']['id']}"
    assert api.get(path).json()["server"]["accessIPv6"] == usual
    assert api.put(path, {"server": {"accessIPv6": forms[1]}}).json()["server"]["accessIPv6"] == usual
    cloud.run()
    body = {"rebuild": {"imageRef": str(cloud.image.id), "accessIPv6": forms[1]}}
    assert api.post(f"{path}/action", body).json()["server"]["accessIPv6"] == usual
    subnet = network.create_subnet(cloud.network, "2001:db8::/64", ip_version=6)
    [port] = Port.objects.filter(device_id=answer.json()["server"]["id"])
    FixedIP.objects.create(port=port, subnet=subnet, address=usual, number=9)
    for form in forms:
        for query in (f"ip6={form}", f"access_ip_v6={form}&all_tenants=1"):
            response = Api(people.operator if "access" in query else people.alice).get(f"{V21}/servers?{query}")
            assert len(response.json()["servers"]) == 1, query
    cloud.run()
    assert api.post(f"{path}/action", {"removeFixedIp": {"address": forms[0]}}).status_code == 202


def test_tags_are_kept_for_filters_too(api: Api, cloud: Cloud) -> None:
    instance = accepted(api, cloud, tags=["b", "a", "b"])
    assert instance.tags == ["b", "a"]
    assert sorted(InstanceTag.objects.filter(instance=instance).values_list("tag", flat=True)) == ["a", "b"]
    for tags in (["a/b"], ["a,b"], [""], ["x" * 61], [str(number) for number in range(51)], "ab"):
        assert response_of(api, cloud, tags=tags).status_code == 400


def test_a_host_name_may_be_chosen(api: Api, cloud: Cloud) -> None:
    assert accepted(api, cloud, hostname="Db").hostname == "Db", "only what is made of a display name is lowercased"
    several = response_of(api, cloud, hostname="db.example.org", min_count=2, return_reservation_id=True)
    hostnames = Instance.objects.filter(reservation_id=several.json()["reservation_id"]).values_list(
        "hostname", flat=True
    )
    assert sorted(hostnames) == ["db-1.example.org", "db-2.example.org"]
    for wrong in ("-db", "db_1", "x" * 64, ".", "a..b", ""):
        assert response_of(api, cloud, hostname=wrong).status_code == 400


@pytest.mark.parametrize("external", [False, True])
def test_an_operator_launches_on_any_projects_network(
    api: Api, cloud: Cloud, people: People, *, external: bool
) -> None:
    theirs = network.create_network(people.charlie.project_id, "theirs", external=external)
    network.create_subnet(theirs, "10.31.0.0/24")
    body = server_body(cloud, networks=[{"uuid": str(theirs.id)}])
    assert api.post(f"{V21}/servers", body, OpenStack_API_Version="compute 2.67").status_code in {400, 403}
    made = Api(people.operator).post(f"{V21}/servers", body, OpenStack_API_Version="compute 2.67")
    assert made.status_code == 202, made.content
    drain()
    port = Port.objects.get(device_id=made.json()["server"]["id"])
    assert (port.network_id, port.project_id) == (theirs.id, people.operator.project_id)


def test_certificates_are_kept_and_nothing_is_checked(api: Api, cloud: Cloud) -> None:
    instance = accepted(api, cloud, trusted_image_certificates=["one", "two"])
    shown = api.get(f"{V21}/servers/{instance.id}", OpenStack_API_Version="compute 2.63").json()["server"]
    assert shown["trusted_image_certificates"] == ["one", "two"]
    assert accepted(api, cloud, trusted_image_certificates=None).trusted_certificates is None
    for wrong in ([], ["a", "a"], "a", [""], [str(number) for number in range(51)]):
        assert response_of(api, cloud, trusted_image_certificates=wrong).status_code == 400


# ----- where ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["nova:h1", "nova:h1:h1", "nova::h1"])
def test_an_operator_may_force_a_host(cloud: Cloud, people: People, zone: str) -> None:
    cloud.add_host("h2")
    for number in range(2):
        instance = accepted(Api(people.operator), cloud, availability_zone=zone, name=f"s{number}")
        cloud.run()
        host = cloud.fresh(instance).host
        assert host is not None
        assert host.name == "h1"
    shown = Api(people.operator).get(f"{V21}/servers/{instance.id}", OpenStack_API_Version="compute 2.96")
    assert shown.json()["server"]["pinned_availability_zone"] == "nova"


@pytest.mark.parametrize("field", ["host", "hypervisor_hostname"])
def test_an_operator_may_ask_for_a_host(cloud: Cloud, people: People, field: str) -> None:
    cloud.add_host("h2")
    instance = accepted(Api(people.operator), cloud, **{field: "h2"})
    cloud.run()
    host = cloud.fresh(instance).host
    assert host is not None
    assert host.name == "h2"
    assert (
        "mars could not be found"
        in response_of(Api(people.operator), cloud, **{field: "mars"}).json()["badRequest"]["message"]
    )


@each_row(
    ("changes", "rule"),
    [
        ({"availability_zone": "nova:h1"}, "os_compute_api:servers:create:forced_host"),
        ({"availability_zone": "nova::h1"}, "os_compute_api:servers:create:forced_host"),
        ({"host": "h1"}, "compute:servers:create:requested_destination"),
        ({"hypervisor_hostname": "h1"}, "compute:servers:create:requested_destination"),
    ],
)
def test_others_may_not(api: Api, cloud: Cloud, changes: dict[str, str], rule: str) -> None:
    answer = response_of(api, cloud, **changes)
    assert answer.status_code == 403
    assert answer.json()["forbidden"]["message"] == f"Policy doesn't allow {rule} to be performed."
    assert rule in policy.RULES
    assert Instance.objects.count() == 0


def test_a_place_must_be_there_and_be_named_once(cloud: Cloud, people: People) -> None:
    admin = Api(people.operator)
    assert "mars" in refusal(response_of(admin, cloud, availability_zone="nova:mars"))
    assert "availability zone" in refusal(response_of(admin, cloud, availability_zone="mars:h1"))
    assert "parse" in refusal(response_of(admin, cloud, availability_zone="nova:h1:h1:h1"))
    assert "twice" in refusal(response_of(admin, cloud, availability_zone="nova:h1", host="h1"))
    Host.objects.update(hypervisor_hostname="node1.example")
    assert "mars" in refusal(response_of(admin, cloud, availability_zone="nova:h1:mars"))


@pytest.mark.parametrize("key", ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"])
def test_a_group_is_joined_by_either_name_of_the_hints(api: Api, cloud: Cloud, people: People, key: str) -> None:
    group = ServerGroup.objects.create(
        project_id=people.alice.project_id, user_id=people.alice.user_id, name="g", policy="anti-affinity"
    )
    answer = api.post(f"{V21}/servers", server_body(cloud) | {key: {"group": str(group.id), "of_our_own": 1}})
    ident = answer.json()["server"]["id"]
    assert Instance.objects.get(id=ident).server_group == group
    shown = api.get(f"{V21}/servers/{ident}", OpenStack_API_Version="compute 2.71").json()["server"]
    assert shown["server_groups"] == [str(group.id)]


@each_row(
    "hints",
    [
        {"group": "x"},
        {"group": str(uuid.uuid4())},
        {"same_host": "x"},
        {"query": "[]"},
        {"build_near_host_ip": "x"},
        [],
    ],
)
def test_wrong_hints_are_400(api: Api, cloud: Cloud, hints: Any) -> None:
    refusal(response_of(api, cloud, "2.1", hints=hints))


# ----- disks ----------------------------------------------------------------------------------------------------------


def image_disk(cloud: Cloud, **changes: Any) -> dict[str, Any]:
    disk = {"source_type": "image", "destination_type": "local", "boot_index": 0, "delete_on_termination": True}
    return disk | {"uuid": str(cloud.image.id)} | changes


BLANK = {"source_type": "blank", "destination_type": "local", "boot_index": -1}
SWAP = BLANK | {"guest_format": "swap"}


@pytest.mark.parametrize("with_image", [True, False])
def test_the_boot_disk_may_be_named_as_a_device(api: Api, cloud: Cloud, with_image: bool) -> None:
    changes = {} if with_image else {"imageRef": None}
    instance = accepted(api, cloud, "2.1", block_device_mapping_v2=[image_disk(cloud)], **changes)
    assert instance.image_id == cloud.image.id


def test_empty_disks_are_what_the_flavor_allows(api: Api, cloud: Cloud) -> None:
    Flavor.objects.filter(flavorid="1").update(ephemeral_gb=2, swap_mb=64)
    boot = image_disk(cloud)
    for devices in ([BLANK], [SWAP], [BLANK | {"volume_size": 2}, SWAP | {"volume_size": "64"}]):
        accepted(api, cloud, "2.1", block_device_mapping_v2=[boot, *devices])
    for names in (["ephemeral0"], ["swap"], ["ephemeral0", "swap"]):
        accepted(api, cloud, "2.1", block_device_mapping=[{"virtual_name": name} for name in names])


@each_row(
    ("devices", "sentence"),
    [
        ([SWAP], "Swap drive requested is larger"),
        ([SWAP, SWAP], "More than one swap drive"),
        ([BLANK], "Ephemeral disks requested are larger"),
        ([BLANK | {"volume_size": 9}], "Ephemeral disks requested are larger"),
        ([{"source_type": "volume", "uuid": "v1", "destination_type": "volume"}], "failed to get volume v1."),
        ([{"source_type": "snapshot", "uuid": "s1"}], "failed to get snapshot s1."),
        ([BLANK | {"uuid": "x"}], "Invalid device UUID."),
        ([BLANK | {"boot_index": 0}], "Boot sequence"),
        ([{"source_type": "image"}], "Missing device UUID."),
    ],
)
def test_disks_there_cannot_be(api: Api, cloud: Cloud, devices: list[dict[str, Any]], sentence: str) -> None:
    message = refusal(response_of(api, cloud, "2.1", block_device_mapping_v2=[image_disk(cloud), *devices]))
    assert message.startswith("Block Device Mapping is Invalid: ")
    assert sentence in message


def test_the_boot_disk_is_one(api: Api, cloud: Cloud) -> None:
    boot = image_disk(cloud)
    for devices in ([boot, boot], [image_disk(cloud, destination_type="volume")], [image_disk(cloud, boot_index=1)]):
        refusal(response_of(api, cloud, "2.1", block_device_mapping_v2=devices))
    other = image_disk(cloud, uuid=str(uuid.uuid4()))
    assert "different images" in refusal(response_of(api, cloud, "2.1", block_device_mapping_v2=[other]))
    old = [{"virtual_name": "swap"}]
    both = response_of(api, cloud, "2.1", block_device_mapping=old, block_device_mapping_v2=[boot])
    assert refusal(both).startswith("Using different block_device_mapping syntaxes")
    for kind in ("volume", "snapshot"):
        requested = str(uuid.uuid4())
        refused = response_of(api, cloud, "2.1", block_device_mapping=[{f"{kind}_id": requested}])
        assert f"failed to get {kind} {requested}." in refusal(refused)


@pytest.mark.parametrize(("field", "since", "value"), [("tag", 42, "t"), ("volume_type", 67, "fast")])
def test_devices_have_fields_from_their_microversion(
    api: Api, cloud: Cloud, field: str, since: int, value: str
) -> None:
    devices = [image_disk(cloud, **{field: value})]
    assert "Additional properties" in refusal(
        response_of(api, cloud, f"2.{since - 1}", block_device_mapping_v2=devices)
    )
    later = response_of(api, cloud, f"2.{since}", block_device_mapping_v2=devices)
    assert later.status_code == 202 or "destination_type=local" in refusal(later)


def test_a_port_brings_its_address(api: Api, cloud: Cloud) -> None:
    interface = {"port": str(uuid.uuid4()), "fixed_ip": "10.20.0.9"}
    assert "cannot be specified together" in refusal(response_of(api, cloud, "2.1", networks=[interface]))


@pytest.mark.parametrize(("version", "status"), [("2.36", 400), ("2.37", 202)])
def test_networks_may_be_auto_or_none_from_2_37(api: Api, cloud: Cloud, version: str, status: int) -> None:
    for word in ("auto", "none"):
        body = server_body(cloud, networks=word)
        assert api.post(f"{V21}/servers", body, OpenStack_API_Version=f"compute {version}").status_code == status


def test_the_image_must_be_usable(api: Api, cloud: Cloud) -> None:
    cloud.image.status = "deactivated"
    cloud.image.save(update_fields=["status"])
    assert "mage" in refusal(response_of(api, cloud, "2.1"))


def test_what_the_kernel_was_is_kept(api: Api, cloud: Cloud, people: People) -> None:
    cloud.image.properties = {"os_distro": "alpine"}
    cloud.image.save(update_fields=["properties"])
    assert Instance.objects.get(id=launch(api, cloud)).image_properties == {"os_distro": "alpine"}


def test_files_are_free_where_the_quota_says_so(api: Api, cloud: Cloud, people: People) -> None:
    set_limit(people.alice.project_id, "injected_files", -1)
    files = [{"path": f"/{number}", "contents": ""} for number in range(20)]
    assert len(accepted(api, cloud, "2.1", personality=files).injected_files) == 20
