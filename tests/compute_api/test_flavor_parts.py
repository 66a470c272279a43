"""Extra specs and access lists of flavors."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.common.errors import InvalidInputError
from provisioning.compute.flavors import extra_specs
from provisioning.compute.models import Flavor
from tests.compute_api.conftest import V21
from tests.support.cast import Api, People
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
F = f"{V21}/flavors/f"
SPECS = f"{F}/os-extra_specs"


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


@pytest.fixture
@standing
def flavor(db: None) -> Flavor:
    return Flavor.objects.create(
        flavorid="f", name="f", vcpus=1, memory_mb=64, root_gb=1, is_public=False, extra_specs={"old": "1"}
    )


@pytest.fixture
def operator(people: People, flavor: Flavor) -> Api:
    return Api(people.operator)


@pytest.mark.both_databases("locks")
def test_extra_specs_are_added_changed_and_removed(operator: Api) -> None:
    body = {"extra_specs": {"quota:cpu_quota": 10, "free text": "x", "f": 1.5}}
    added = operator.post(SPECS, body)
    assert (added.status_code, added.json()) == (200, body), "as it was sent"
    assert operator.get(SPECS).json() == {
        "extra_specs": {"old": "1", "quota:cpu_quota": "10", "free text": "x", "f": "1.5"}
    }
    assert operator.put(f"{SPECS}/old", {"old": "2"}).json() == {"old": "2"}
    assert operator.get(f"{SPECS}/old").json() == {"old": "2"}
    gone = operator.delete(f"{SPECS}/old")
    assert (gone.status_code, gone.content) == (200, b"")
    for answer in (operator.get(f"{SPECS}/old"), operator.delete(f"{SPECS}/old")):
        assert answer.status_code == 404
        assert answer.json()["itemNotFound"]["message"] == "Flavor f has no extra specs with key old."


@each_row(
    "specs",
    [{"a/b": "x"}, {"": "x"}, {"a" * 256: "x"}, {"a": "x" * 256}, {"a": None}, {"a": True}, {"a": {}}, [], "x"],
)
def test_wrong_extra_specs_change_nothing(operator: Api, flavor: Flavor, specs: Any) -> None:
    assert operator.post(SPECS, {"extra_specs": specs}).status_code == 400
    flavor.refresh_from_db()
    assert flavor.extra_specs == {"old": "1"}


def test_one_extra_spec_is_the_one_of_the_address(operator: Api) -> None:
    wrong = operator.put(f"{SPECS}/a", {"b": "1"})
    assert (wrong.status_code, wrong.json()["badRequest"]["message"]) == (400, "Request body and URI mismatch")
    assert operator.put(f"{SPECS}/a", {"a": "1", "b": "1"}).status_code == 400
    assert operator.put(f"{SPECS}/a", {}).status_code == 400
    assert operator.put(f"{V21}/flavors/g/os-extra_specs/a", {"a": "1"}).status_code == 404
    assert operator.post(f"{V21}/flavors/g/os-extra_specs", {"extra_specs": {}}).status_code == 404
    assert operator.delete(f"{V21}/flavors/g/os-extra_specs/a").status_code == 404


WRONG = [
    ("hw:cpu_policy", "sharred", "'sharred' is not one of: dedicated, shared, mixed."),
    ("hw:numa_nodes", "two", "'two' is not a valid integer value."),
    ("hw:numa_nodes", "0", "'0' is less than the min value of '1'."),
    ("hw:redirected_usb_ports", "16", "'16' is greater than the max value of '15'."),
    ("hw:boot_menu", "perhaps", "'perhaps' is not a valid boolean-like value."),
    ("hw:numa_cpus.0", "a-b", "is not of the format"),
    ("hw:cpu_polciy", "shared", "extra spec 'hw:cpu_polciy' does not appear to be a valid extra spec."),
    ("quota:cpu_shares", "-1", "less than the min value"),
    ("quota:cpu_share", "1", "does not appear to be a valid"),
    ("resources:VCPUS", "1", "does not appear to be a valid"),
    ("resources1:CUSTOM_GOLD", "much", "not a valid integer"),
    ("trait:HW_CPU_X86_AVX2", "wanted", "not one of: required, forbidden"),
    ("trait2:lower", "required", "does not appear to be a valid"),
    ("os:secure_boot", "yes", "not one of: disabled, required"),
    ("os:nonsense", "1", "does not appear to be a valid"),
    ("group_policy", "apart", "not one of: isolate, none"),
]
RIGHT = [
    ("hw:cpu_policy", "shared"), ("hw:numa_nodes", 2), ("hw:numa_cpus.0", "0-3,^2"), ("hw:mem_page_size", "2MB"),
    ("hw:boot_menu", "True"), ("quota:cpu_quota", "-1"), ("quota:vif_inbound_peak", "5"), ("resources:VCPU", "1"),
    ("resources_G1:CUSTOM_GOLD", "1"), ("trait_x:CUSTOM_FAST", "forbidden"), ("os:secure_boot", "required"),
    ("aggregate_instance_extra_specs:ssd", "<or> a <or> b"), ("capabilities:vcpus", ">= 5"),
    ("capabilities:cpu_info:features", "<in> avx"), ("hw_rng:allowed", "true"), ("pci_passthrough:alias", "a:1, b:2"),
    ("accel:device_profile", "x"), ("mine:anything", "goes"), ("plain", "text"),
]  # fmt: skip


@each_row(("key", "value", "sentence"), WRONG)
def test_known_namespaces_are_checked_from_2_86(operator: Api, key: str, value: str, sentence: str) -> None:
    for answer in (
        operator.post(SPECS, {"extra_specs": {key: value}}, **at("2.86")),
        operator.put(f"{SPECS}/{key}", {key: value}, **at("2.86")),
    ):
        assert answer.status_code == 400
        message = answer.json()["badRequest"]["message"]
        assert message.startswith("Validation failed; ")
        assert sentence in message
    assert operator.post(SPECS, {"extra_specs": {key: value}}, **at("2.85")).status_code == 200


@each_row(("key", "value"), RIGHT)
def test_right_extra_specs_pass_in_2_86(operator: Api, key: str, value: object) -> None:
    assert operator.put(f"{SPECS}/{key}", {key: value}, **at("2.86")).status_code == 200


@each_row("key", ["hw:numa_cpus.0", "hw:pmem", "pci_passthrough:alias", "hw:mem_page_size"])
@each_row("unit", ["1", "1-1", "1-1,", "1,1-1,", "a", "a,", "a:1,", " ", "1 "])
def test_no_text_keeps_the_check_busy(key: str, unit: str) -> None:
    """A pattern that tries every way to read a text would not come back for these."""
    text = (unit * 255)[:254] + "!"
    with pytest.raises(InvalidInputError):
        extra_specs.check(key, text)


def test_a_project_gets_access_and_loses_it(operator: Api, people: People) -> None:
    alice, project = Api(people.alice), people.alice.project_id.hex
    assert alice.get(F).status_code == 404
    added = operator.post(f"{F}/action", {"addTenantAccess": {"tenant": project}})
    expected = {"flavor_access": [{"flavor_id": "f", "tenant_id": project}]}
    assert (added.status_code, added.json()) == (200, expected)
    assert operator.get(f"{F}/os-flavor-access").json() == expected
    assert alice.get(F).status_code == 200
    assert [each["id"] for each in alice.get(f"{V21}/flavors").json()["flavors"]] == ["f"]
    again = operator.post(f"{F}/action", {"addTenantAccess": {"tenant": project}})
    assert again.status_code == 409
    assert f"flavor f and project {project}" in again.json()["conflictingRequest"]["message"]
    removed = operator.post(f"{F}/action", {"removeTenantAccess": {"tenant": project}})
    assert (removed.status_code, removed.json()) == (200, {"flavor_access": []})
    assert alice.get(F).status_code == 404
    for tenant in (project, "nonsense", uuid.uuid4().hex):
        assert operator.post(f"{F}/action", {"removeTenantAccess": {"tenant": tenant}}).status_code == 404


@each_row(("version", "status"), [("2.1", 200), ("2.6", 200), ("2.7", 409), ("2.96", 409)])
def test_public_flavors_need_no_access_from_2_7(
    operator: Api, flavor: Flavor, people: People, version: str, status: int
) -> None:
    Flavor.objects.update(is_public=True)
    body = {"addTenantAccess": {"tenant": people.alice.project_id.hex}}
    assert operator.post(f"{F}/action", body, **at(version)).status_code == status
    assert operator.get(f"{F}/os-flavor-access").status_code == 404


@each_row(
    ("body", "status"),
    [
        ({}, 400),
        ({"addTenantAccess": {}}, 400),
        ({"addTenantAccess": {"tenant": ""}}, 400),
        ({"addTenantAccess": {"tenant": 5}}, 400),
        ({"addTenantAccess": {"tenant": "nonsense"}}, 400),
        ({"addTenantAccess": {"tenant": uuid.uuid4().hex}}, 400),
        ({"paint": {"tenant": "x"}}, 400),
        ({"addTenantAccess": {"tenant": "x"}, "removeTenantAccess": {"tenant": "x"}}, 400),
    ],
)
def test_wrong_actions_are_refused(operator: Api, body: dict[str, Any], status: int) -> None:
    assert operator.post(f"{F}/action", body).status_code == status


def test_members_change_neither(flavor: Flavor, people: People) -> None:
    Flavor.objects.update(is_public=True)
    alice = Api(people.alice)
    tenant = {"tenant": people.alice.project_id.hex}
    for answer in (
        alice.post(SPECS, {"extra_specs": {}}),
        alice.put(f"{SPECS}/a", {"a": "1"}),
        alice.delete(f"{SPECS}/old"),
        alice.get(f"{F}/os-flavor-access"),
        alice.post(f"{F}/action", {"addTenantAccess": tenant}),
        alice.post(f"{F}/action", {"removeTenantAccess": tenant}),
    ):
        assert answer.status_code == 403
    assert alice.get(f"{SPECS}/old").json() == {"old": "1"}
