"""The quota editor: limits of a project and of all, with usage drawn."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client

from portal.dashboard.graphs.bars import Bar, bars_of, grouped, label_of
from provisioning.quotas import selectors
from provisioning.quotas.limits import DEFAULTS
from provisioning.quotas.selectors import limits_of
from provisioning.quotas.services.ledger import commit, reserve
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.selectors.types import DEFAULT
from provisioning.volumes.services.catalogue.types import create_type
from tests.dashboard.conftest import SignedIn, offered
from tests.support.cast import Person
from tests.support.tables import each_row


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


def form(**changes: str) -> dict[str, str]:
    """What the editor sends when nothing was touched, with changes: ``cores="2"``, ``"unlimited"`` or ``"default"``."""
    typed = {f"how-{name}": "default" for name in DEFAULTS} | {f"limit-{name}": "" for name in DEFAULTS}
    for name, value in changes.items():
        how = value if value in {"unlimited", "default"} else "limit"
        typed |= {f"how-{name}": how, f"limit-{name}": value if how == "limit" else ""}
    return typed


def use(project_id: uuid.UUID, **amounts: int) -> None:
    owner = uuid.uuid4()
    reserve(project_id, owner, amounts)
    commit(owner)


def test_every_resource_is_in_the_editor(at_operator: Client, alice: Person) -> None:
    page = at_operator.get(f"/projects/{alice.project_id}/quotas/").content.decode()
    for name in DEFAULTS:
        assert f'name="how-{name}"' in page
        assert f'name="limit-{name}"' in page


def test_addresses_are_drawn_and_limited(at_operator: Client, signed_in: SignedIn, alice: Person) -> None:
    at_operator.post(f"/projects/{alice.project_id}/quotas/", form(fixed_ips="8"))
    use(alice.project_id, fixed_ips=2)
    assert "IP addresses: 2 of 8" in signed_in(alice).get("/project/").content.decode()


@pytest.mark.slow
def test_limits_are_set_lifted_and_reset(at_operator: Client, alice: Person) -> None:
    address = f"/projects/{alice.project_id}/quotas/"
    answer = at_operator.post(address, form(cores="2", ram="unlimited", instances="0"), follow=True)
    assert "The quotas of wonderland were saved." in answer.content.decode()
    limits = limits_of(alice.project_id)
    assert (limits["cores"], limits["ram"], limits["instances"]) == (2, -1, 0)
    assert selectors.own_limits(alice.project_id) == {"cores": 2, "ram": -1, "instances": 0}
    page = at_operator.get(address).content.decode()
    assert 'name="limit-cores" value="2"' in page
    at_operator.post(address, form(cores="5"))
    assert selectors.own_limits(alice.project_id) == {"cores": 5}
    at_operator.post(f"{address}reset/")
    assert selectors.own_limits(alice.project_id) == {}


@pytest.mark.slow
def test_each_volume_type_has_limits_of_its_own(at_operator: Client, alice: Person) -> None:
    create_type("fast")
    address = f"/projects/{alice.project_id}/quotas/"
    page = at_operator.get(address).content.decode()
    assert "Volume storage of type fast" in page
    at_operator.post(address, form(gigabytes_fast="7", volumes_fast="unlimited"))
    assert selectors.own_limits(alice.project_id, ["gigabytes_fast"]) == {"gigabytes_fast": 7}
    use(alice.project_id, gigabytes_fast=3)
    assert 'name="limit-gigabytes_fast" value="7"' in at_operator.get(address).content.decode()
    assert "Volume storage of type fast: 3" in at_operator.get(f"/projects/{alice.project_id}/").content.decode()
    at_operator.post(f"{address}reset/")
    assert limits_of(alice.project_id).get("gigabytes_fast") is None
    at_operator.post("/quotas/", form(snapshots_fast="2"))
    assert limits_of(alice.project_id)["snapshots_fast"] == 2


@pytest.mark.parametrize("wrong", ["", "-1", "two", "1.5", "2147483648", "9" * 30, "1e3", "a\0b", "١٢"])
def test_a_wrong_number_is_reported_at_its_field_and_nothing_is_saved(
    at_operator: Client, alice: Person, wrong: str
) -> None:
    typed = form(cores="2", instances="3") | {"how-ram": "limit", "limit-ram": wrong}
    answer = at_operator.post(f"/projects/{alice.project_id}/quotas/", typed)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert list(answer.context["form"].errors) == ["limit-ram"]
    assert 'id="limit-ram_error"' in page
    assert page.count("field-error") == 1
    assert 'value="3"' in page
    assert selectors.own_limits(alice.project_id) == {}


@pytest.mark.slow
def test_an_unknown_choice_is_refused(at_operator: Client, alice: Person) -> None:
    answer = at_operator.post(f"/projects/{alice.project_id}/quotas/", form() | {"how-cores": "much"})
    assert answer.status_code == 422
    assert 'id="how-cores_error"' in answer.content.decode()


def test_a_form_that_names_nothing_changes_nothing(at_operator: Client, alice: Person) -> None:
    set_limit(alice.project_id, "cores", 3)
    at_operator.post(f"/projects/{alice.project_id}/quotas/", {"how-gold": "unlimited"})
    assert selectors.own_limits(alice.project_id) == {"cores": 3}


@pytest.mark.slow
def test_a_limit_below_usage_is_taken_and_reported(at_operator: Client, alice: Person) -> None:
    use(alice.project_id, instances=3, cores=4)
    address = f"/projects/{alice.project_id}/quotas/"
    page = at_operator.post(address, form(cores="2"), follow=True).content.decode()
    assert "vCPUs: 4 in use with a limit of 2. Nothing is deleted" in page
    assert "Instances: 3 in use" not in page
    assert limits_of(alice.project_id)["cores"] == 2
    editor = at_operator.get(address).content.decode()
    assert editor.count("The usage exceeds this limit") == 1


def test_the_limit_counts_at_the_next_launch(at_operator: Client, alice: Person) -> None:
    at_operator.post(f"/projects/{alice.project_id}/quotas/", form(cores="2"))
    use(alice.project_id, cores=2)
    with pytest.raises(Exception, match="Quota exceeded for cores"):
        use(alice.project_id, cores=1)


@pytest.mark.slow
def test_the_defaults_are_those_of_projects_without_their_own(
    at_operator: Client, alice: Person, charlie: Person
) -> None:
    set_limit(charlie.project_id, "cores", 7)
    answer = at_operator.post("/quotas/", form(cores="4", ports="unlimited"), follow=True)
    assert "The default quotas were saved." in answer.content.decode()
    assert (limits_of(alice.project_id)["cores"], limits_of(charlie.project_id)["cores"]) == (4, 7)
    assert limits_of(alice.project_id)["ports"] == -1
    assert offered(at_operator.get(f"/projects/{alice.project_id}/quotas/"), "how-cores")[0] == "Default"
    assert at_operator.post("/quotas/", form(cores="x")).status_code == 422
    at_operator.post("/quotas/", form())
    assert limits_of(alice.project_id)["cores"] == DEFAULTS["cores"]


@each_row(
    ("bar", "tone", "widths", "text"),
    [
        (Bar("cores", 20, 5, 5), "this", ("25.00", "25.00"), "vCPUs: 10 of 20, 5 of it reserved"),
        (Bar("cores", 20, 16, 0), "near", ("80.00", "0.00"), "vCPUs: 16 of 20"),
        (Bar("cores", 20, 20, 0), "over", ("100.00", "0.00"), "vCPUs: 20 of 20"),
        (Bar("cores", 2, 3, 1), "over", ("75.00", "25.00"), "vCPUs: 4 of 2, 1 of it reserved"),
        (Bar("cores", 0, 0, 0), "this", ("0", "0"), "vCPUs: 0 of 0"),
        (Bar("cores", -1, 9, 0), "this", ("0", "0"), "vCPUs: 9, no limit"),
    ],
)
def test_a_bar_is_drawn_by_use_reservation_and_limit(bar: Bar, tone: str, widths: tuple[str, str], text: str) -> None:
    assert (bar.tone, (bar.in_use_width, bar.reserved_width), bar.text) == (tone, widths, text)


def test_every_resource_has_a_place_and_a_word() -> None:
    groups = grouped({name: (limit, 0, 0) for name, limit in DEFAULTS.items()})
    assert sorted(bar.resource for group in groups.values() for bar in group) == sorted(DEFAULTS)
    assert "Other" not in groups
    assert bars_of({}, ("cores",)) == []


def test_the_built_in_volume_type_is_named_by_words() -> None:
    assert label_of(f"gigabytes_{DEFAULT}") == "Volume storage of the default type"
