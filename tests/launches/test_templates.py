"""Launch templates: versions, locked fields that no request can change, and who sees and changes them."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.compute.models import Instance
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.launches import selectors
from provisioning.launches.errors import LockedFieldError, LockedValuesError, TooManyError
from provisioning.launches.models import InstanceLease, LaunchTemplate
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.launches.services import snippets, templates
from provisioning.launches.services.launch import launch_plan
from provisioning.launches.services.templates import Modes, Source
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
LAB = Modes(locked=("flavor", "lease_days", "image"), asked=("name",))


def but(plan: LaunchPlan, **changes: Any) -> LaunchPlan:
    return msgspec.structs.replace(plan, **changes)


@pytest.fixture
def lab(cloud: Cloud, alice: RequestContext, plan: LaunchPlan) -> LaunchTemplate:
    return templates.create_template(alice, "Lab: Web", "", but(plan, lease_days=7), LAB)


def test_its_link_derives_from_its_name(lab: LaunchTemplate, alice: RequestContext) -> None:
    assert lab.slug == "lab-web"
    assert selectors.template_with_slug(alice, "lab-web") == lab
    version = selectors.version_of(lab)
    assert (version.number, version.locked, version.asked) == (
        1,
        ["image", "boot_from", "flavor", "lease_days"],
        ["name"],
    )


@each_row("slug", ["Lab", "a b", "-a", "a--b", "x" * 65, "ä"])
def test_a_link_has_only_letters_digits_and_hyphens(slug: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        templates._checked_slug(slug)
    assert refused.value.field == "slug"


@each_row(
    "field, value",
    [
        ("image", str(uuid.UUID(int=1))),
        ("flavor", "none"),
        ("networks", (str(uuid.UUID(int=1)),)),
        ("security_groups", (str(uuid.UUID(int=1)),)),
        ("key_name", "none"),
        ("availability_zone", "none"),
        ("server_group", str(uuid.UUID(int=1))),
        ("snippets", (str(uuid.UUID(int=1)),)),
        ("boot_from", f"volume:{uuid.UUID(int=1)}"),
        ("lease_days", 9999),
        ("count", 101),
        ("user_data", "#cloud-config\nusers: [a"),
        ("tags", ("a,b",)),
        ("metadata", {"x" * 256: "y"}),
    ],
)
def test_a_value_that_no_launch_could_have_cannot_be_locked(
    alice: RequestContext, plan: LaunchPlan, field: str, value: object
) -> None:
    wrong = but(plan, **{field: value})
    with pytest.raises(InvalidInputError) as refused:
        templates.create_template(alice, "Wrong", "wrong", wrong, Modes(locked=(field,)))
    assert refused.value.field == field
    assert templates.create_template(alice, "Open", "open", wrong, Modes(locked=("config_drive",)))


def test_a_floating_ip_is_locked_without_a_router_if_launches_choose_the_networks(
    alice: RequestContext, plan: LaunchPlan
) -> None:
    wanted = but(plan, networks=(), reachable=True)
    assert templates.create_template(alice, "Open", "open", wanted, Modes(locked=("reachable",), asked=("networks",)))
    with pytest.raises(InvalidInputError) as refused:
        templates.create_template(alice, "Wrong", "wrong", wanted, Modes(locked=("reachable", "networks")))
    assert refused.value.field == "reachable"


def test_all_wrong_locked_values_are_reported(alice: RequestContext, cloud: Cloud, plan: LaunchPlan) -> None:
    nobody = str(uuid.UUID(int=1))
    wrong = {"image": nobody, "key_name": "none", "tags": ("a,b",), "networks": (nobody,), "lease_days": 9999}
    wrong |= {"user_data": "#cloud-config\nusers: [a", "security_groups": (nobody,)}
    opened = but(plan, availability_zone="none", metadata={"x" * 256: "y"}, flavor="none", **wrong)
    with pytest.raises(LockedValuesError) as refused:
        templates.create_template(alice, "Wrong", "wrong", opened, Modes(locked=(*wrong, "description")))
    assert set(refused.value.messages) == set(wrong)


@each_row(
    "locked, blamed",
    [(("flavor",), None), (("image",), None), (("image", "flavor"), "flavor"), (("flavor", "tags"), "tags")],
)
def test_a_value_that_another_image_or_flavor_would_allow_is_locked(
    alice: RequestContext, cloud: Cloud, plan: LaunchPlan, locked: tuple[str, ...], blamed: str | None
) -> None:
    large = images.create(alice, name="large", disk_format="raw", container_format="bare", min_ram=1_000_000)
    Image.objects.filter(pk=large.pk).update(status="active", size=1)
    wanted = but(plan, image=str(large.pk), tags=("a,b",) if "tags" in locked else ())
    if blamed is None:
        assert templates.create_template(alice, "Large", "large", wanted, Modes(locked=locked))
        return
    with pytest.raises(LockedValuesError) as refused:
        templates.create_template(alice, "Large", "large", wanted, Modes(locked=locked))
    assert list(refused.value.messages) == [blamed]


def test_a_quota_that_is_in_use_does_not_matter(alice: RequestContext, plan: LaunchPlan) -> None:
    assert templates.create_template(alice, "Many", "", but(plan, count=90), Modes(locked=("count", "flavor")))


def test_a_locked_field_cannot_be_changed_by_a_launch(lab: LaunchTemplate, alice: RequestContext) -> None:
    version = selectors.version_of(lab)
    fixed = templates.plan_in(version)
    for changes in ({"flavor": "2"}, {"lease_days": None}, {"lease_days": 8}, {"image": ""}, {"boot_from": "volume:x"}):
        with pytest.raises(LockedFieldError) as refused:
            launch_plan(alice, but(fixed, **changes), "k", source=Source(lab.id, 1))
        assert refused.value.field in changes
    assert not Instance.objects.exists()
    launch_plan(alice, but(fixed, name="mine", tags=("x",)), "k", source=templates.source_of(lab, version))
    assert Instance.objects.get().name == "mine"
    assert InstanceLease.objects.get().fixed


def test_a_template_or_version_that_does_not_exist_launches_nothing(
    lab: LaunchTemplate, alice: RequestContext, plan: LaunchPlan
) -> None:
    with pytest.raises(NotFoundError):
        launch_plan(alice, plan, "k", source=Source(lab.id, 9))


@pytest.mark.both_databases("constraints")
def test_a_change_is_a_new_version(lab: LaunchTemplate, alice: RequestContext, plan: LaunchPlan) -> None:
    templates.add_version(alice, lab.id, but(plan, flavor="2"), Modes())
    lab.refresh_from_db()
    assert (lab.default_version, templates.plan_in(selectors.version_of(lab)).flavor) == (2, "2")
    assert templates.plan_in(selectors.version_of(lab, 1)).flavor == "1"
    with pytest.raises(ConflictError):
        templates.delete_version(alice, lab.id, 2)
    templates.set_default(alice, lab.id, 1)
    templates.delete_version(alice, lab.id, 2)
    assert templates.add_version(alice, lab.id, plan, Modes(), default=False).number == 2
    lab.refresh_from_db()
    assert lab.default_version == 1


def test_other_projects_see_only_public_ones(
    lab: LaunchTemplate, alice: RequestContext, charlie: RequestContext, operator: RequestContext, plan: LaunchPlan
) -> None:
    with pytest.raises(NotFoundError):
        selectors.template_with_slug(charlie, "lab-web")
    with pytest.raises(NotFoundError):
        launch_plan(charlie, plan, "k", source=Source(lab.id, 1))
    with pytest.raises(ForbiddenError):
        templates.create_template(alice, "All", "all", plan, Modes(), public=True)
    with pytest.raises(ForbiddenError):
        templates.update_template(alice, lab.id, name="x", slug="x", public=True)
    public = templates.create_template(operator, "Lab", "lab-web", plan, Modes(), public=True)
    assert selectors.template_with_slug(charlie, "lab-web") == public
    assert selectors.template_with_slug(alice, "lab-web") == lab
    for change in (
        lambda: templates.delete_template(charlie, public.id),
        lambda: templates.add_version(charlie, public.id, plan, Modes()),
        lambda: templates.set_default(charlie, public.id, 1),
    ):
        with pytest.raises(NotFoundError):
            change()


@pytest.mark.both_databases("constraints")
def test_a_link_belongs_to_one_template(lab: LaunchTemplate, alice: RequestContext, plan: LaunchPlan) -> None:
    with pytest.raises(ConflictError) as refused:
        templates.create_template(alice, "Other", "lab-web", plan, Modes())
    assert refused.value.field == "slug"
    other = templates.create_template(alice, "Other", "other", plan, Modes())
    with pytest.raises(ConflictError):
        templates.update_template(alice, other.id, name="Other", slug="lab-web", public=False)


def test_their_number_is_limited(
    lab: LaunchTemplate, alice: RequestContext, plan: LaunchPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "MOST_TEMPLATES", 1)
    monkeypatch.setattr(templates, "MOST_VERSIONS", 1)
    with pytest.raises(TooManyError):
        templates.create_template(alice, "Other", "other", plan, Modes())
    with pytest.raises(TooManyError):
        templates.add_version(alice, lab.id, plan, Modes())


def test_unknown_fields_are_refused_and_the_name_stays_open(
    alice: RequestContext, cloud: Cloud, plan: LaunchPlan
) -> None:
    with pytest.raises(InvalidInputError):
        templates.create_template(alice, "A", "a", plan, Modes(locked=("hostname",)))
    made = templates.create_template(alice, "A", "a", plan, Modes(locked=("name",)))
    assert selectors.version_of(made).locked == []


@pytest.mark.both_databases("constraints")
def test_deleting_one_keeps_its_servers(lab: LaunchTemplate, alice: RequestContext, plan: LaunchPlan) -> None:
    launch_plan(alice, but(plan, lease_days=7), "k", source=Source(lab.id, 1))
    templates.delete_template(alice, lab.id)
    assert Instance.objects.count() == 1
    assert not LaunchTemplate.objects.exists()


# ----- snippets ------------------------------------------------------------------------------------------------------


@pytest.mark.both_databases("constraints")
def test_a_snippet_is_the_projects(
    alice: RequestContext, charlie: RequestContext, cloud: Cloud, plan: LaunchPlan
) -> None:
    made = snippets.create_snippet(alice, "hello", "#cloud-config\r\nruncmd: [[ls]]")
    assert snippets.texts_of(alice, [str(made.id)]) == [(str(made.id), "#cloud-config\nruncmd: [[ls]]\n")]
    with pytest.raises(InvalidInputError):
        launch_plan(charlie, but(plan, snippets=(str(made.id),)), "k")
    with pytest.raises(ConflictError):
        snippets.create_snippet(alice, "hello", "#cloud-config\n")
    snippets.update_snippet(alice, made.id, "hi", "#cloud-config\npackages: [vim]\n")
    with pytest.raises(NotFoundError):
        snippets.delete_snippet(charlie, made.id)
    snippets.delete_snippet(alice, made.id)
    assert not selectors.snippets_for(alice)


@each_row(
    "text", ["", "#!/bin/sh\n", "packages: [vim]\n", "#cloud-config\n\tfoo: [bar", "#cloud-config\n" + "#" * 20_000]
)
def test_a_snippet_that_cloud_init_would_ignore_is_refused(text: str, alice: RequestContext) -> None:
    with pytest.raises(InvalidInputError) as refused:
        snippets.create_snippet(alice, "x", text)
    assert refused.value.field == "text"
