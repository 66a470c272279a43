"""Volume types over the Block Storage API: extra specs, access, encryption, QoS specs and defaults."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.quotas.models import QuotaLimit
from provisioning.volumes.models import Volume, VolumeType
from tests.support.cast import Api, People
from tests.support.tables import each_row
from tests.volume_api.conftest import V3, at

pytestmark = pytest.mark.django_db


def _made(api: Api, name: str, **values: object) -> str:
    answer = api.post(f"{V3}/types", {"volume_type": {"name": name, **values}})
    assert answer.status_code == 200, answer.content
    return str(answer.json()["volume_type"]["id"])


def test_a_type_lives_through_the_api(operator_api: Api, api: Api) -> None:
    specs = {"multiattach": "<is> True", "volume_backend_name": "local"}
    ident = _made(operator_api, "fast", description="quick", extra_specs=specs)
    shown = api.get(f"{V3}/types/fast").json()["volume_type"]
    assert (shown["id"], shown["is_public"], shown["description"]) == (ident, True, "quick")
    assert shown["extra_specs"] == {"multiattach": "<is> True"}, "what says how the cloud is built is operators'"
    assert "qos_specs_id" not in shown
    assert operator_api.get(f"{V3}/types/{ident}").json()["volume_type"]["extra_specs"] == specs
    assert api.put(f"{V3}/types/{ident}", {"volume_type": {"name": "x"}}).status_code == 403
    changed = operator_api.put(f"{V3}/types/{ident}", {"volume_type": {"name": "faster", "is_public": False}})
    assert changed.json()["volume_type"]["name"] == "faster"
    assert api.get(f"{V3}/types/{ident}").status_code == 404
    assert operator_api.delete(f"{V3}/types/{ident}").status_code == 202
    assert operator_api.get(f"{V3}/types/{ident}").json()["itemNotFound"]["code"] == 404


def test_names_are_taken_once_and_nonsense_is_refused(operator_api: Api) -> None:
    _made(operator_api, "fast")
    assert operator_api.post(f"{V3}/types", {"volume_type": {"name": "fast"}}).status_code == 409
    for wrong in ({"name": ""}, {"name": " "}, {"name": "a\nb"}, {}, {"name": "x", "extra_specs": {"a": 1}}, {"a": 1}):
        answer = operator_api.post(f"{V3}/types", {"volume_type": wrong})
        assert answer.status_code == 400, wrong
        assert "badRequest" in answer.json()


def test_a_private_type_is_seen_by_who_has_access(operator_api: Api, api: Api, people: People) -> None:
    ident = _made(operator_api, "secret", **{"os-volume-type-access:is_public": False})
    where, project = f"{V3}/types/{ident}", people.alice.project_id.hex
    assert api.get(where).status_code == 404
    assert operator_api.post(f"{where}/action", {"addProjectAccess": {"project": project}}).status_code == 202
    assert operator_api.post(f"{where}/action", {"addProjectAccess": {"project": project}}).status_code == 409
    assert api.get(where).status_code == 200
    assert api.post(f"{where}/action", {"addProjectAccess": {"project": project}}).status_code == 403
    listed = operator_api.get(f"{where}/os-volume-type-access").json()["volume_type_access"]
    assert listed == [{"volume_type_id": ident, "project_id": project}]
    assert operator_api.post(f"{where}/action", {"removeProjectAccess": {"project": project}}).status_code == 202
    assert operator_api.post(f"{where}/action", {"removeProjectAccess": {"project": project}}).status_code == 404
    assert api.get(where).status_code == 404
    both = [each["name"] for each in operator_api.get(f"{V3}/types?is_public=None").json()["volume_types"]]
    public = [each["name"] for each in operator_api.get(f"{V3}/types?is_public=True").json()["volume_types"]]
    assert ("secret" in both, "secret" in public) == (True, False)


def test_extra_specs_stay_while_there_are_volumes(operator_api: Api, people: People) -> None:
    ident = _made(operator_api, "fast", extra_specs={"a": "1"})
    where = f"{V3}/types/{ident}/extra_specs"
    assert operator_api.post(where, {"extra_specs": {"b": "2"}}).json() == {"extra_specs": {"b": "2"}}
    assert operator_api.put(f"{where}/b", {"b": "3"}).json() == {"b": "3"}
    assert operator_api.put(f"{where}/b", {"c": "3"}).status_code == 400
    assert operator_api.get(where).json() == {"extra_specs": {"a": "1", "b": "3"}}
    assert operator_api.delete(f"{where}/a").status_code == 202
    assert operator_api.delete(f"{where}/a").status_code == 404
    Volume.objects.create(project_id=people.alice.project_id, size_gb=1, volume_type_id=ident)
    for answer in (
        operator_api.put(f"{where}/b", {"b": "4"}),
        operator_api.delete(f"{V3}/types/{ident}"),
        operator_api.post(
            f"{V3}/types/{ident}/encryption", {"encryption": {"provider": "luks", "control_location": "front-end"}}
        ),
    ):
        assert answer.status_code == 400, answer.content


def test_encryption_of_a_type(operator_api: Api, api: Api) -> None:
    ident = _made(operator_api, "locked")
    where = f"{V3}/types/{ident}/encryption"
    requested = {"provider": "luks", "control_location": "front-end", "cipher": "aes-xts-plain64", "key_size": "256"}
    made = operator_api.post(where, {"encryption": requested}).json()["encryption"]
    assert made["key_size"] == 256
    assert operator_api.post(where, {"encryption": requested}).status_code == 400
    assert operator_api.get(f"{where}/cipher").json() == {"cipher": "aes-xts-plain64"}
    one = f"{where}/{made['encryption_id']}"
    assert operator_api.put(one, {"encryption": {"key_size": 512}}).json() == {"encryption": {"key_size": 512}}
    assert operator_api.get(where).json()["key_size"] == 512
    assert api.get(where).status_code == 403
    assert operator_api.delete(one).status_code == 202
    assert operator_api.get(where).json() == {}


@each_row(
    "changes, named",
    [
        ({"provider": "SomeProvider"}, "SomeProvider"),
        ({"provider": "", "cipher": ""}, "luks"),
        ({"cipher": "rot13"}, "rot13"),
        ({"key_size": 7}, "7"),
    ],
)
def test_a_type_may_say_what_no_storage_daemon_does(
    operator_api: Api, api: Api, changes: dict[str, Any], named: str
) -> None:
    """Only its volumes are refused."""
    where = f"{V3}/types/{_made(operator_api, 'odd')}/encryption"
    requested = {"provider": "luks", "control_location": "front-end"}
    made = operator_api.post(where, {"encryption": requested}).json()["encryption"]
    assert operator_api.put(f"{where}/{made['encryption_id']}", {"encryption": changes}).status_code == 200
    assert {name: operator_api.get(where).json()[name] for name in changes} == changes
    refused = api.post(f"{V3}/volumes", {"volume": {"size": 1, "volume_type": "odd"}})
    assert refused.status_code == 400
    assert named in refused.json()["badRequest"]["message"]


def test_qos_specs_are_given_to_types(operator_api: Api, api: Api) -> None:
    ident = _made(operator_api, "fast")
    requested = {"name": "limits", "consumer": "front-end", "total_iops_sec": "100", "total_bytes_sec": "1000"}
    spec = operator_api.post(f"{V3}/qos-specs", {"qos_specs": requested}).json()["qos_specs"]
    where = f"{V3}/qos-specs/{spec['id']}"
    assert spec["specs"] == {"total_iops_sec": "100", "total_bytes_sec": "1000"}
    assert operator_api.get(f"{where}/associate?vol_type_id={ident}").status_code == 202
    assert operator_api.get(f"{V3}/types/{ident}").json()["volume_type"]["qos_specs_id"] == spec["id"]
    associations = operator_api.get(f"{where}/associations").json()["qos_associations"]
    assert associations == [{"association_type": "volume_type", "name": "fast", "id": ident}]
    assert operator_api.delete(where).status_code == 400
    assert operator_api.put(where, {"qos_specs": {"total_iops_sec": "200"}}).status_code == 200
    assert operator_api.put(f"{where}/delete_keys", {"keys": ["total_bytes_sec"]}).status_code == 202
    assert operator_api.get(where).json()["qos_specs"]["specs"] == {"total_iops_sec": "200"}
    assert operator_api.get(f"{where}/disassociate?vol_type_id={ident}").status_code == 202
    assert operator_api.get(f"{where}/associations").json()["qos_associations"] == []
    assert api.get(where).status_code == 403
    assert operator_api.delete(where).status_code == 202
    assert operator_api.get(f"{V3}/qos-specs").json()["qos_specs"] == []


@pytest.mark.both_databases("locks")
def test_limits_that_no_hypervisor_keeps_are_refused(operator_api: Api) -> None:
    """A limit that a hypervisor knows must be one that it can keep; a change of the consumer checks the stored ones."""

    def answer(method: str, path: str, **asked: str) -> int:
        return int(getattr(operator_api, method)(f"{V3}/qos-specs{path}", {"qos_specs": asked}).status_code)

    for value in ("banana", "-1", "1.5", "", "1" * 16, "1" * 255, "\N{ARABIC-INDIC DIGIT ONE}"):
        assert answer("post", "", name="limits", consumer="both", total_iops_sec=value) == 400
    for wrong in (
        {"total_iops_sec": "9", "write_iops_sec_per_gb": "9"},
        {"read_bytes_sec_max": "9"},
        {"read_bytes_sec": "9", "read_bytes_sec_max": "8"},
        {"read_bytes_sec": "9", "read_bytes_sec_max_length": "2"},
        {"read_bytes_sec": "9", "size_iops_sec": "4096"},
    ):
        assert answer("post", "", name="limits", consumer="front-end", **wrong) == 400, wrong
    spec = operator_api.post(f"{V3}/qos-specs", {"qos_specs": {"name": "limits", "nonsense": "x"}}).json()["qos_specs"]
    where = f"/{spec['id']}"
    assert answer("put", where, consumer="front-end", total_iops_sec_per_gb="5", total_iops_sec_per_gb_min="0") == 200
    assert answer("put", where, read_bytes_sec="banana") == 400
    assert answer("put", where, read_iops_sec="5") == 400, "beside the total"
    assert answer("put", where, nonsense="1", iops_bytes="500") == 200, "what no hypervisor knows is stored"
    assert operator_api.get(f"{V3}/qos-specs{where}").json()["qos_specs"]["specs"] == {
        "total_iops_sec_per_gb": "5", "total_iops_sec_per_gb_min": "0", "nonsense": "1", "iops_bytes": "500",
    }  # fmt: skip


@pytest.mark.both_databases("locks")
def test_a_project_has_a_default_type_from_3_62_on(operator_api: Api, api: Api, people: People) -> None:
    ident = _made(operator_api, "fast")
    VolumeType.objects.create(name="__DEFAULT__")
    where = f"{V3}/default-types/{people.alice.project_id.hex}"
    assert operator_api.put(where, {"default_type": {"volume_type": "fast"}}, **at("3.61")).status_code == 404
    set_ = operator_api.put(where, {"default_type": {"volume_type": "fast"}}, **at("3.62"))
    assert set_.json() == {"default_type": {"project_id": people.alice.project_id.hex, "volume_type_id": ident}}
    assert api.get(f"{V3}/types/default").json()["volume_type"]["name"] == "fast"
    assert operator_api.get(f"{V3}/types/default").json()["volume_type"]["name"] == "__DEFAULT__"
    assert operator_api.delete(f"{V3}/types/{ident}").status_code == 400
    assert operator_api.get(f"{V3}/default-types", **at("3.62")).json()["default_types"] == [
        set_.json()["default_type"]
    ]
    assert operator_api.delete(where, **at("3.62")).status_code == 204
    assert operator_api.get(where, **at("3.62")).status_code == 404


def test_quotas_of_a_type_follow_its_name(operator_api: Api, people: People) -> None:
    ident = _made(operator_api, "fast")
    where = f"{V3}/os-quota-sets/{people.alice.project_id.hex}"
    set_ = operator_api.put(where, {"quota_set": {"volumes_fast": 3, "volumes": 7}})
    assert (set_.json()["quota_set"]["volumes_fast"], set_.json()["quota_set"]["gigabytes_fast"]) == (3, -1)
    assert operator_api.put(where, {"quota_set": {"volumes_slow": 3}}).status_code == 400
    operator_api.put(f"{V3}/types/{ident}", {"volume_type": {"name": "faster"}})
    assert operator_api.get(where).json()["quota_set"]["volumes_faster"] == 3
    assert not QuotaLimit.objects.filter(resource="volumes_fast").exists()
