"""Servers over HTTP: create, show, list, update, delete."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from provisioning.compute.models import Instance
from tests.compute_api.conftest import V21, launch, server_body
from tests.support.cast import Api, People
from tests.support.clouds import Cloud, base64_of
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def test_create_answers_202_with_id_links_and_location(api: Api, cloud: Cloud) -> None:
    answer = api.post(f"{V21}/servers", server_body(cloud))
    assert answer.status_code == 202
    server = answer.json()["server"]
    assert set(server) == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
    assert answer["Location"].endswith(f"/compute/v2.1/servers/{server['id']}")
    assert {link["rel"] for link in server["links"]} == {"self", "bookmark"}
    assert answer["X-Compute-Request-Id"] == answer["X-Openstack-Request-Id"]
    assert answer["OpenStack-API-Version"] == "compute 2.1"


def test_a_launched_server_shows_what_novas_does(api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(api, cloud, metadata={"role": "web"}, config_drive=True)
    server = api.get(f"{V21}/servers/{ident}").json()["server"]
    assert server["status"] == "ACTIVE"
    assert server["OS-EXT-STS:vm_state"] == "active"
    assert server["OS-EXT-STS:task_state"] is None
    assert server["OS-EXT-STS:power_state"] == 1
    assert server["metadata"] == {"role": "web"}
    assert server["tenant_id"] == people.alice.project_id.hex
    assert server["flavor"]["id"] == "1"
    assert server["image"]["id"] == str(cloud.image.id)
    [address] = server["addresses"]["net"]
    assert address["addr"].startswith("10.20.0.")
    assert address["OS-EXT-IPS:type"] == "fixed"
    assert server["security_groups"] == [{"name": "default"}]
    assert server["progress"] == 100
    assert server["config_drive"] == "True"
    assert len(server["hostId"]) == 56
    assert not any(key.startswith("OS-EXT-SRV-ATTR") for key in server), "only operators see where it is"


def test_an_operator_sees_the_host(api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(api, cloud)
    server = Api(people.operator).get(f"{V21}/servers/{ident}").json()["server"]
    assert server["OS-EXT-SRV-ATTR:host"] == "h1"


@each_row(
    ("microversion", "field"),
    [
        ("2.9", "locked"),
        ("2.19", "description"),
        ("2.26", "tags"),
        ("2.63", "trusted_image_certificates"),
        ("2.71", "server_groups"),
        ("2.73", "locked_reason"),
    ],
)
def test_fields_appear_at_their_microversion(
    api: Api, cloud: Cloud, microversion: str, field: str, server: str
) -> None:
    before = f"2.{int(microversion.split('.')[1]) - 1}"
    assert field in api.get(f"{V21}/servers/{server}", OpenStack_API_Version=f"compute {microversion}").json()["server"]
    assert field not in api.get(f"{V21}/servers/{server}", OpenStack_API_Version=f"compute {before}").json()["server"]


def test_the_flavor_is_embedded_from_2_47(new_api: Api, cloud: Cloud) -> None:
    ident = launch(new_api, cloud, networks="auto")
    flavor = new_api.get(f"{V21}/servers/{ident}").json()["server"]["flavor"]
    assert flavor == {
        "vcpus": 1,
        "ram": 1024,
        "disk": 2,
        "ephemeral": 0,
        "swap": 0,
        "original_name": "m1.small",
        "extra_specs": {},
    }


def test_networks_are_required_from_2_37(new_api: Api, cloud: Cloud) -> None:
    answer = new_api.post(f"{V21}/servers", server_body(cloud))
    assert answer.status_code == 400
    assert "networks" in answer.json()["badRequest"]["message"]


def test_microversion_out_of_range_is_406(api: Api, cloud: Cloud) -> None:
    answer = api.get(f"{V21}/servers", OpenStack_API_Version="compute 2.999")
    assert answer.status_code == 406
    assert "maximum is 2.96" in answer.content.decode()


def test_legacy_microversion_header_counts(api: Api, cloud: Cloud) -> None:
    answer = api.get(f"{V21}/servers", X_OpenStack_Nova_API_Version="2.26")
    assert answer["X-OpenStack-Nova-API-Version"] == "2.26"
    assert "X-OpenStack-Nova-API-Version" in answer["Vary"]


BAD = {
    "no name": ({"name": None}, "name"),
    "empty name": ({"name": ""}, "name"),
    "name of blanks": ({"name": "  "}, "name"),
    "long name": ({"name": "x" * 256}, "name"),
    "name with a newline": ({"name": "a\nb"}, "name"),
    "name is a number": ({"name": 5}, "name"),
    "unknown image": ({"imageRef": str(uuid.uuid4())}, "image"),
    "image is no id": ({"imageRef": "../../etc/passwd"}, "image"),
    "no image": ({"imageRef": None}, "imageRef"),
    "unknown flavor": ({"flavorRef": "999"}, "Flavor"),
    "unknown network": ({"networks": [{"uuid": str(uuid.uuid4())}]}, "etwork"),
    "network is no id": ({"networks": [{"uuid": "net"}]}, "uuid"),
    "unknown key": ({"key_name": "nobodys"}, "nobodys"),
    "unknown group": ({"security_groups": [{"name": "nope"}]}, "ecurity group"),
    "unknown zone": ({"availability_zone": "mars"}, "availability zone"),
    "user data is no base64": ({"user_data": "!!!"}, "user_data"),
    "user data too long": ({"user_data": base64_of(49_200)}, "user_data"),
    "unknown field": ({"color": "red"}, "color"),
    "metadata is a list": ({"metadata": ["a"]}, "metadata"),
    "metadata value is a number": ({"metadata": {"a": 1}}, "a"),
    "count is nought": ({"min_count": 0}, "min_count"),
    "more at least than at most": ({"min_count": 3, "max_count": 2}, "min_count"),
    "password too long": ({"adminPass": "geheim" * 50}, "adminPass"),
    "access address": ({"accessIPv4": "2001:db8::1"}, "accessIPv4"),
    "partitions": ({"OS-DCF:diskConfig": "SOMETIMES"}, "diskConfig"),
    "boot from volume": (
        {
            "imageRef": None,
            "block_device_mapping_v2": [
                {"boot_index": 0, "source_type": "volume", "uuid": str(uuid.uuid4()), "destination_type": "volume"}
            ],
        },
        "Block Device Mapping",
    ),
}


@each_row("case", BAD)
def test_wrong_input_is_a_400_that_names_it_and_keeps_nothing(api: Api, cloud: Cloud, case: str) -> None:
    changes, named = BAD[case]
    answer = api.post(f"{V21}/servers", server_body(cloud, **changes))
    assert answer.status_code == 400, answer.content
    fault = answer.json()["badRequest"]
    assert fault["code"] == 400
    assert named in fault["message"]
    assert "geheim" not in fault["message"]
    assert Instance.objects.count() == 0


@each_row("body", [b"{", b"[]", b'"x"', b"null", b'{"server": 5}', b"\xff\xfe"])
def test_malformed_bodies_are_400(api: Api, cloud: Cloud, body: bytes) -> None:
    answer = api.client.post(f"{V21}/servers", data=body, content_type="application/json", headers=api.headers)
    assert answer.status_code == 400
    assert "badRequest" in answer.json()


def test_a_huge_body_is_413(api: Api, cloud: Cloud) -> None:
    answer = api.client.post(
        f"{V21}/servers",
        data=b'{"a":"' + b"x" * 2_000_000 + b'"}',
        content_type="application/json",
        headers=api.headers,
    )
    assert answer.status_code == 413


def test_over_quota_is_a_403_with_the_figures(api: Api, cloud: Cloud) -> None:
    answer = api.post(f"{V21}/servers", server_body(cloud, flavorRef="2", min_count=6, max_count=6))
    assert answer.status_code == 403
    message = answer.json()["forbidden"]["message"]
    assert message.startswith("Quota exceeded for cores: Requested 24, but already used 0 of 20 cores"), message
    assert Instance.objects.count() == 0


def test_a_server_has_a_limited_number_of_interfaces(api: Api, cloud: Cloud) -> None:
    answer = api.post(f"{V21}/servers", server_body(cloud, networks=[{"uuid": str(cloud.network.id)}] * 9))
    assert answer.status_code == 400
    assert "at most 8 network interfaces" in answer.json()["badRequest"]["message"]
    assert Instance.objects.count() == 0


def test_no_valid_host_is_an_error_with_the_filters(api: Api, cloud: Cloud) -> None:
    for agent in cloud.agents.values():
        type(agent.host).objects.filter(id=agent.host.id).update(memory_mb_total=512)
    ident = launch(api, cloud)
    server = api.get(f"{V21}/servers/{ident}").json()["server"]
    assert server["status"] == "ERROR"
    assert server["fault"]["code"] == 500
    assert "No valid host was found" in server["fault"]["message"]
    assert "h1" not in server["fault"]["message"]
    assert server["hostId"] == ""


def test_several_servers_share_a_reservation(api: Api, cloud: Cloud) -> None:
    answer = api.post(f"{V21}/servers", server_body(cloud, min_count=3, return_reservation_id=True))
    assert answer.status_code == 202
    reservation = answer.json()["reservation_id"]
    servers = api.get(f"{V21}/servers/detail?reservation_id={reservation}").json()["servers"]
    assert sorted(server["name"] for server in servers) == ["web-1", "web-2", "web-3"]


@pytest.mark.slow
def test_list_is_paged_filtered_and_sorted(api: Api, cloud: Cloud) -> None:
    idents = [launch(api, cloud, name=f"n{index}") for index in range(3)]
    first = api.get(f"{V21}/servers?limit=2&sort_key=display_name&sort_dir=asc").json()
    assert [server["name"] for server in first["servers"]] == ["n0", "n1"]
    following = first["servers_links"][0]["href"]
    rest = api.get(following[following.index("/compute") :]).json()
    assert [server["name"] for server in rest["servers"]] == ["n2"]
    assert "servers_links" not in rest
    assert [s["id"] for s in api.get(f"{V21}/servers?name=n1").json()["servers"]] == [idents[1]]
    assert len(api.get(f"{V21}/servers/detail?status=ACTIVE").json()["servers"]) == 3
    assert api.get(f"{V21}/servers/detail?status=ERROR").json()["servers"] == []


@each_row(
    "query",
    [
        "limit=-1",
        "limit=x",
        "marker=nope",
        "sort_key=favourite",
        "sort_dir=up&sort_key=uuid",
        "changes-since=yesterday",
    ],
)
def test_wrong_query_is_400(api: Api, cloud: Cloud, query: str) -> None:
    assert api.get(f"{V21}/servers?{query}").status_code == 400


@pytest.mark.slow
def test_detail_costs_the_same_queries_for_one_and_for_six(api: Api, cloud: Cloud) -> None:
    launch(api, cloud)
    with CaptureQueriesContext(connection) as one:
        assert len(api.get(f"{V21}/servers/detail").json()["servers"]) == 1
    launch(api, cloud, min_count=5)
    with CaptureQueriesContext(connection) as six:
        assert len(api.get(f"{V21}/servers/detail").json()["servers"]) == 6
    assert len(one) == len(six)
    assert len(six) <= 8, [query["sql"] for query in six]


def test_rename_and_describe(new_api: Api, cloud: Cloud) -> None:
    ident = launch(new_api, cloud, networks="auto")
    answer = new_api.put(f"{V21}/servers/{ident}", {"server": {"name": "db", "description": "the database"}})
    assert answer.status_code == 200
    assert answer.json()["server"]["name"] == "db"
    assert new_api.get(f"{V21}/servers/{ident}").json()["server"]["description"] == "the database"


def test_delete_is_204_and_then_404(api: Api, cloud: Cloud, server: str) -> None:
    assert api.delete(f"{V21}/servers/{server}").status_code == 204
    cloud.run()
    assert api.get(f"{V21}/servers/{server}").status_code == 404
    assert api.delete(f"{V21}/servers/{server}").status_code == 404


@each_row("method", ["get", "put", "delete", "post"])
def test_another_projects_server_does_not_exist(
    api: Api, cloud: Cloud, people: People, method: str, server: str
) -> None:
    foreign = Api(people.charlie)
    body = {"server": {"name": "mine"}} if method == "put" else {"os-stop": None}
    path = f"{V21}/servers/{server}" + ("/action" if method == "post" else "")
    answer = getattr(foreign, method)(path, *([body] if method in {"put", "post"} else []))
    unknown = getattr(foreign, method)(
        path.replace(server, "11111111-1111-1111-1111-111111111111"), *([body] if method in {"put", "post"} else [])
    )
    assert answer.status_code == unknown.status_code == 404
    assert set(answer.json()) == set(unknown.json()) == {"itemNotFound"}


def test_a_reader_sees_and_cannot_touch(api: Api, cloud: Cloud, people: People, server: str) -> None:
    reader = Api(people.bob)
    assert reader.get(f"{V21}/servers/{server}").status_code == 200
    assert reader.post(f"{V21}/servers", server_body(cloud)).status_code == 403
    assert reader.delete(f"{V21}/servers/{server}").status_code == 403
    assert reader.post(f"{V21}/servers/{server}/action", {"os-stop": None}).status_code == 403


def test_all_tenants_is_for_operators(api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(api, cloud)
    assert api.get(f"{V21}/servers?all_tenants=1").status_code == 403
    servers = Api(people.operator).get(f"{V21}/servers?all_tenants=1").json()["servers"]
    assert [server["id"] for server in servers] == [ident]
    assert Api(people.operator).get(f"{V21}/servers").json()["servers"] == []


def test_without_a_token_401_in_keystones_shape(cloud: Cloud) -> None:
    answer = Api(None).get(f"{V21}/servers")
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == 401
    assert answer["WWW-Authenticate"].startswith("Keystone uri=")
