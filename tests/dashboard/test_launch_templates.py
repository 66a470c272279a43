"""Launch templates and snippets: saved from the wizard or an instance, opened by a link, and launched by one click."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from django.test import Client

from provisioning.common.database import outage
from provisioning.compute.models import Instance
from provisioning.images.models import Image
from provisioning.launches.models import InstanceLease, LaunchTemplate, Snippet
from provisioning.launches.plans.plan import DataDisk, LaunchPlan
from provisioning.launches.services import templates
from provisioning.launches.services.launch import launch_plan
from provisioning.launches.services.templates import Modes
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_database_outage import error_of
from tests.dashboard.test_launch import typed
from tests.support.cast import Person
from tests.support.clouds import Cloud

PATH = "/launch-templates/"
LINK = "/launch/t/lab/"


def plan_of(cloud: Cloud, **changes: Any) -> LaunchPlan:
    values: dict[str, Any] = {"name": "web", "image": str(cloud.image.id), "flavor": "1", **changes}
    return LaunchPlan(**{"networks": (str(cloud.network.id),), **values})


@pytest.fixture
def lab(cloud: Cloud, alice: Person) -> LaunchTemplate:
    modes = Modes(locked=("image", "flavor", "networks", "lease_days", "password", "tags"), asked=("name",))
    return templates.create_template(alice.context, "Lab", "lab", plan_of(cloud, lease_days=7, tags=("lab",)), modes)


def saved(client: Client, page: Any, **changes: Any) -> Any:
    """Send the form of a new template or version as it was shown, with changes."""
    form = page.context["form"]
    shown = {name: form[name].value() for name in form.fields}
    values = {name: value for name, value in {**shown, **changes}.items() if value not in (None, False)}
    return client.post(page.request["PATH_INFO"], values)


def test_the_wizard_saves_what_is_typed_as_a_template(at_alice: Client, cloud: Cloud) -> None:
    wizard = typed(cloud, tags="a, b", disks_size=["5", ""], disks_mount=["/srv", ""], reachable="on", openings=["ssh"])
    page = at_alice.post(f"{PATH}create/", wizard)
    assert page.status_code == 200
    assert not Instance.objects.exists()
    answer = saved(at_alice, page, title="Lab", mode_flavor="locked", mode_name="asked", lock_rest="on")
    made = LaunchTemplate.objects.get()
    assert answer.headers["Location"] == f"{PATH}{made.id}/"
    version = made.versions.get()
    assert (made.slug, version.asked) == ("lab", ["name"])
    assert {"flavor", "user_data", "boot_from"} <= set(version.locked)
    assert not {"name", "key_name", "password", "networks", "disks"} & set(version.locked)
    plan = templates.plan_in(version)
    assert (plan.tags, plan.disks[0].mount, plan.openings) == (("a", "b"), "/srv", ("ssh",))
    assert at_alice.get(f"{PATH}{made.id}/").status_code == 200


def test_all_listed_fields_can_be_locked_in_one_step(at_alice: Client, cloud: Cloud) -> None:
    page = at_alice.post(f"{PATH}create/", typed(cloud, tags="a, b"))
    saved(at_alice, page, title="Lab", mode_flavor="asked", lock_listed="on")
    version = LaunchTemplate.objects.get().versions.get()
    assert {"image", "networks", "tags", "count"} <= set(version.locked)
    assert not {"flavor", "name", "key_name", "password", "user_data"} & set(version.locked)


def test_a_save_that_the_database_aborts_keeps_the_plan(at_alice: Client, cloud: Cloud) -> None:
    page = at_alice.post(f"{PATH}create/", typed(cloud, tags="a, b"))
    with mock.patch.object(templates, "create_template", side_effect=error_of("40001")):
        answer = saved(at_alice, page, title="Lab")
    assert answer.status_code == 503
    assert outage.CONTENDED in str(answer.context["form"].non_field_errors())
    assert answer.context["form"]["plan"].value() == page.context["form"]["plan"].value()
    assert saved(at_alice, answer, title="Lab").status_code == 303


def test_a_wizard_with_errors_is_shown_again(at_alice: Client, cloud: Cloud) -> None:
    answer = at_alice.post(f"{PATH}create/", typed(cloud, name="", description="kept"))
    assert answer.status_code == 422
    assert answer.context["form"].errors.keys() == {"name"}
    assert b"kept" in answer.content


def test_an_instance_is_saved_as_a_template(at_alice: Client, cloud: Cloud, alice: Person) -> None:
    server = cloud.launch(alice.context, name="shop", tags=("x",))
    page = at_alice.get(f"{PATH}create/", {"server": str(server.id)})
    saved(at_alice, page, title="Shop")
    plan = templates.plan_in(LaunchTemplate.objects.get().versions.get())
    assert (plan.name, plan.image, plan.flavor, plan.tags) == ("shop", str(cloud.image.id), "1", ("x",))


@pytest.mark.slow
def test_a_template_of_an_instance_has_its_data_disks_and_lease(at_alice: Client, cloud: Cloud, alice: Person) -> None:
    cloud.agents["host-1"].serve()
    disks = (DataDisk(2, "/srv/db"), DataDisk(1))
    requested = plan_of(cloud, disks=disks, delete_disks=True, lease_days=3, on_volume=True, volume_size=5)
    (server,) = launch_plan(alice.context, requested, "k").instances
    cloud.run()
    saved(at_alice, at_alice.get(f"{PATH}create/", {"server": str(server.id)}), title="Shop")
    plan = templates.plan_in(LaunchTemplate.objects.get().versions.get())
    assert (plan.disks, plan.delete_disks, plan.lease_days) == (disks, True, 3)
    assert (plan.image, plan.on_volume, plan.volume_size) == (str(cloud.image.id), True, 5)


def test_a_size_of_no_volume_is_not_listed(at_alice: Client, cloud: Cloud) -> None:
    size = b"Size of the volume"
    assert size not in at_alice.post(f"{PATH}create/", typed(cloud, volume_size="10")).content
    assert size in at_alice.post(f"{PATH}create/", typed(cloud, volume_size="10", on_volume="on")).content


def test_everybody_gets_a_suggested_name_of_their_own(
    at_alice: Client, lab: LaunchTemplate, cloud: Cloud, alice: Person
) -> None:
    assert at_alice.get(LINK).context["form"]["name"].value() == "web"
    plan = plan_of(cloud, name="calm-comet", volume_size=10)
    modes = Modes(locked=("image", "volume_size"), asked=("name",))
    made = templates.create_template(alice.context, "Course", "course", plan, modes)
    with mock.patch("portal.dashboard.launch.names.secrets.choice", side_effect=("wise", "vega")):
        page = at_alice.get(f"/launch/t/{made.slug}/")
    assert page.context["form"]["name"].value() == "wise-vega"
    assert [each.name for each in page.context["fixed"]] == ["image"], "a size of no volume is not listed"


def test_a_link_needs_one_field_and_one_click(at_alice: Client, lab: LaunchTemplate) -> None:
    page = at_alice.get(LINK, {"name": "mine"})
    form = page.context["form"]
    assert [field.name for field in form.first_fields] == ["name"]
    assert form["name"].value() == "mine"
    assert {field.name for field in page.context["fixed"]} == {"image", "flavor", "networks", "tags", "lease_days"}
    assert form["password"].label in page.context["unset"]
    answer = at_alice.post(LINK, {"name": "mine", "idempotency_key": form["idempotency_key"].value()})
    server = Instance.objects.get()
    assert answer.headers["Location"] == f"/instances/{server.id}/"
    assert (server.name, server.flavor["flavorid"], server.tags) == ("mine", "1", ["lab"])
    assert InstanceLease.objects.get(instance=server).fixed


@pytest.mark.parametrize(
    ("forged", "refused"),
    [
        ({"flavor": "2"}, True),
        ({"lease_days": ""}, True),
        ({"tags": "lab, other"}, True),
        ({"networks": []}, False),
        ({"networks": ["none"]}, True),
        ({"password": "on"}, True),
        ({"flavor": "1", "tags": " lab,", "lease_days": "7"}, False),
    ],
)
def test_a_request_cannot_change_a_locked_field(
    at_alice: Client, lab: LaunchTemplate, forged: dict[str, Any], refused: bool
) -> None:
    answer = at_alice.post(LINK, {"name": "mine", **forged})
    if not refused:
        server = Instance.objects.get()
        assert (server.flavor["flavorid"], server.tags) == ("1", ["lab"])
        return
    assert answer.status_code == 422
    label = answer.context["form"][next(iter(forged))].label
    error = f"The launch template does not allow other values of: {label}."
    assert answer.context["form"].non_field_errors() == [error]
    assert error in answer.content.decode()
    assert not Instance.objects.exists()
    quoted = at_alice.post(f"{LINK}quote/", {"name": "mine", **forged})
    assert error in quoted.content.decode()


@pytest.mark.parametrize("sent", [{}, {"count": "2", "user_data": "#!/bin/sh\r\nid\r\n"}])
def test_a_link_launches_a_locked_number_of_instances(
    at_alice: Client, cloud: Cloud, alice: Person, sent: dict[str, str]
) -> None:
    plan = plan_of(cloud, count=2, user_data="#!/bin/sh\nid\n")
    modes = Modes(locked=("image", "flavor", "networks", "count", "user_data"))
    templates.create_template(alice.context, "Lab", "lab", plan, modes)
    assert at_alice.post(LINK, {"name": "mine", **sent}).status_code == 303
    assert Instance.objects.count() == 2


def test_malformed_user_data_is_not_locked(at_alice: Client, cloud: Cloud) -> None:
    wizard = typed(cloud, user_data="#cloud-config\nusers: [a", user_data_as_is="on")
    page = at_alice.post(f"{PATH}create/", wizard)
    answer = saved(at_alice, page, title="Lab", mode_user_data="locked")
    assert answer.status_code == 422
    assert answer.context["form"].errors["mode_user_data"][0].startswith("Line 2: ")
    assert saved(at_alice, page, title="Lab").status_code == 303


def test_each_locked_value_that_is_wrong_is_reported_at_its_field(at_alice: Client, cloud: Cloud) -> None:
    wizard = typed(cloud, user_data="#cloud-config\nusers: [a", user_data_as_is="on", tags="a/b", lease_days="7")
    page = at_alice.post(f"{PATH}create/", wizard)
    answer = saved(at_alice, page, title="Lab", **dict.fromkeys(("mode_user_data", "mode_tags"), "locked"))
    assert set(answer.context["form"].errors) == {"mode_user_data", "mode_tags"}


def test_an_error_of_two_fields_is_shown_at_the_one_that_can_be_changed(
    at_alice: Client, cloud: Cloud, alice: Person
) -> None:
    Image.objects.filter(id=cloud.image.id).update(min_ram=1_000_000)
    for slug, locked, field in (("a", "flavor", "image"), ("b", "image", "flavor")):
        templates.create_template(alice.context, slug, slug, plan_of(cloud), Modes(locked=(locked,)))
        answer = at_alice.post(f"/launch/t/{slug}/", typed(cloud))
        assert list(answer.context["form"].errors) == [field], locked


def test_a_link_names_the_locked_field_that_is_wrong_and_who_corrects_it(
    at_alice: Client, signed_in: SignedIn, charlie: Person, lab: LaunchTemplate
) -> None:
    version = lab.versions.get()
    version.values |= {"user_data": "#cloud-config\nusers: [a", "flavor": "none"}
    version.locked = ["image", "flavor", "user_data"]
    version.save(update_fields=["values", "locked"])
    answer = at_alice.post(LINK, {"name": "mine"})
    assert answer.status_code == 422
    [notice] = answer.context["form"].notices
    assert notice[1].startswith("User data: Line 2: ")
    assert notice[1].endswith("Save a new version of the template with another value.")
    assert "as it is" not in notice[1]

    version.values |= {"user_data": ""}
    version.save(update_fields=["values"])
    lab.public = True
    lab.save(update_fields=["public"])
    [notice] = signed_in(charlie).post(LINK, {"name": "theirs"}).context["form"].notices
    assert notice == (
        "flavor",
        "Size: Flavor 'none' could not be found. The launch template locks this value. "
        "Ask an operator to correct the template.",
    )


def test_the_summary_of_a_link_knows_the_locked_fields(at_alice: Client, lab: LaunchTemplate) -> None:
    answer = at_alice.post(f"{LINK}quote/", {"name": "mine"})
    assert answer.context["wizard"].flavor.flavor.flavorid == "1"
    assert not answer.context["form"].notices


def test_other_projects_open_only_public_links(
    signed_in: SignedIn, charlie: Person, operator: Person, lab: LaunchTemplate, cloud: Cloud
) -> None:
    at_charlie = signed_in(charlie)
    for path in (LINK, f"{PATH}{lab.id}/", f"{PATH}{lab.id}/edit/", f"{PATH}{lab.id}/versions/1/delete/"):
        assert at_charlie.get(path).status_code == 404
    templates.create_template(operator.context, "Lab", "lab", plan_of(cloud), Modes(), public=True)
    answer = at_charlie.post(LINK, {**typed(cloud), "name": "theirs"})
    assert answer.status_code == 303
    assert Instance.objects.get().project_id == charlie.project_id


def test_a_new_version_is_made_in_the_wizard(at_alice: Client, cloud: Cloud, lab: LaunchTemplate) -> None:
    opened = at_alice.get("/instances/launch/", {"template": str(lab.id)})
    form = opened.context["form"]
    assert (form["lease_days"].value(), form["tags"].value(), form["flavor"].value()) == ("7", "lab", "1")
    page = at_alice.post(f"{PATH}{lab.id}/versions/create/", typed(cloud, flavor="2"))
    assert page.context["form"]["mode_flavor"].value() == "locked"
    saved(at_alice, page)
    lab.refresh_from_db()
    assert lab.default_version == 2
    assert templates.plan_in(lab.versions.get(number=2)).flavor == "2"
    at_alice.post(f"{PATH}{lab.id}/versions/1/default/")
    at_alice.post(f"{PATH}{lab.id}/versions/2/delete/")
    lab.refresh_from_db()
    assert [*lab.versions.values_list("number", flat=True)] == [lab.default_version] == [1]


def test_its_name_and_link_are_changed_and_it_is_deleted(at_alice: Client, lab: LaunchTemplate) -> None:
    at_alice.post(f"{PATH}{lab.id}/edit/", {"name": "New", "slug": "new"})
    lab.refresh_from_db()
    assert (lab.name, lab.slug, lab.public) == ("New", "new", False)
    wrong = at_alice.post(f"{PATH}{lab.id}/edit/", {"name": "New", "slug": "No Way"})
    assert list(wrong.context["form"].errors) == ["slug"]
    at_alice.post(f"{PATH}{lab.id}/delete/")
    assert not LaunchTemplate.objects.exists()


def test_a_changed_hidden_plan_is_refused(at_alice: Client, cloud: Cloud) -> None:
    for plan in ("{", '{"count": "many"}', "[]"):
        assert at_alice.post(f"{PATH}create/", {"plan": plan, "title": "x"}).status_code == 404


def test_snippets_are_kept_chosen_and_deleted(at_alice: Client, cloud: Cloud) -> None:
    broken = at_alice.post("/snippets/create/", {"name": "x", "text": "#cloud-config\n\tfoo: [bar"})
    assert list(broken.context["form"].errors) == ["text"]
    at_alice.post("/snippets/create/", {"name": "hello", "text": "#cloud-config\nruncmd: [[ls]]"})
    made = Snippet.objects.get()
    at_alice.post(f"/snippets/{made.id}/edit/", {"name": "hi", "text": "#cloud-config\nruncmd: [[id]]"})
    assert at_alice.post("/instances/launch/", typed(cloud, snippets=[str(made.id)])).status_code == 303
    at_alice.post(f"/snippets/{made.id}/delete/")
    gone = at_alice.post("/instances/launch/", typed(cloud, snippets=[str(made.id)], idempotency_key="2"))
    assert list(gone.context["form"].errors) == ["snippets"]
