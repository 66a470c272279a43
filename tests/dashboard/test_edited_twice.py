"""Two edits of one record: the later one is shown the change of the earlier one, and nothing is lost."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Mapping
from typing import Any, cast

import pytest
from django import forms
from django.http import QueryDict
from django.test import Client
from django.urls import get_resolver, reverse

from portal.dashboard.copy_as.written import ASKED
from portal.dashboard.frame.edits import SHOWN, collision_of, forget, remember, shown_input
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from provisioning.identity.models import Role, User
from provisioning.network.models import Network
from tests.dashboard.conftest import SignedIn
from tests.dashboard.test_every_form import addresses as addresses
from tests.dashboard.test_every_form import patterns
from tests.support.cast import People, Person, make_user
from tests.support.clouds import Cloud, context
from tests.support.tables import each_row

UNCHANGED = object()
"""The value with which the form was shown."""
EDITS: Mapping[str, tuple[str, Any, Any]] = {
    "domain_edit": ("description", "theirs", "mine"),
    "domain_member_roles": ("handed_down", ["reader"], ["member"]),
    "forwarding_edit": ("description", "theirs", "mine"),
    "group_edit": ("name", "theirs", "mine"),
    "host_maintenance": ("reason", "theirs", "mine"),
    "image_hardware": ("hw_disk_bus", "scsi", "sata"),
    "instance_lease": ("lease_days", "7", "30"),
    "instance_metadata": ("metadata", "a=theirs\nb=2", "a=mine"),
    "instance_rename": ("name", "theirs", "mine"),
    "instance_tags": ("tags", "theirs", "mine"),
    "launch_template_edit": ("name", "theirs", "mine"),
    "member_roles": ("roles", ["reader"], ["member", "reader"]),
    "network_edit": ("name", "theirs", "mine"),
    "port_edit": ("name", "theirs", "mine"),
    "port_groups": ("security_groups", [], UNCHANGED),
    "project_edit": ("tags", "theirs", "mine"),
    "project_quotas": ("limit-cores", "11", "12"),
    "quota_defaults": ("limit-cores", "11", "12"),
    "role_edit": ("name", "theirs", "mine"),
    "role_implications": ("roles", ["reader"], ["member"]),
    "router_edit": ("name", "theirs", "mine"),
    "router_gateway": ("enable_snat", False, UNCHANGED),
    "security_group_edit": ("name", "theirs", "mine"),
    "settings": ("description", "theirs", "mine"),
    "snapshot_edit": ("name", "theirs", "mine"),
    "snippet_edit": ("text", "#cloud-config\npackages: [theirs]\n", "#cloud-config\npackages: [mine]\n"),
    "subnet_edit": ("name", "theirs", "mine"),
    "system_member_roles": ("roles", ["reader"], ["member"]),
    "user_edit": ("email", "theirs@x.org", "mine@x.org"),
    "volume_edit": ("name", "theirs", "mine"),
}
"""Form → a field, the value that another user saves first, and the value that is saved later."""
ALSO = {"limit-cores": {"how-cores": "limit"}}
"""Values that are sent with those of a field."""


@pytest.fixture
def two(signed_in: SignedIn, people: People) -> tuple[Client, Client]:
    colleague = Person(make_user("olga", {people.operator.project: "admin"}), people.operator.project)
    return signed_in(people.operator), signed_in(colleague)


def shown(answer: Any, **changed: Any) -> dict[str, Any]:
    """Return the values that a browser sends for a page with a form, with changes."""
    form = answer.context["form"]
    result = re.search(rf'name="{SHOWN}" value="([^"]*)"', answer.content.decode())
    values = {name: form[name].value() for name in form.fields} | {
        name.replace("__", "-"): value for name, value in changed.items() if value is not UNCHANGED
    }
    sent = {name: "on" if value is True else value for name, value in values.items() if value not in (None, False)}
    return sent | {SHOWN: html.unescape(result[1]) if result else ""}


def typed(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        value = [str(role.id) for role in Role.objects.filter(name__in=value)]
    return {
        field.replace("-", "__"): value,
        **{name.replace("-", "__"): text for name, text in ALSO.get(field, {}).items()},
    }


def test_every_form_that_edits_a_record_is_in_the_table() -> None:
    dashboard = get_resolver("portal.dashboard.urls")
    views = {name: getattr(each.callback, "view_class", None) for name, each in patterns(dashboard)}
    forms = {name: view for name, view in views.items() if view is not None and issubclass(view, FormPage)}
    assert {name for name, view in forms.items() if view.edits} == EDITS.keys()
    assert not {name for name in forms if name.endswith(("_edit", "_roles"))} - EDITS.keys()


@pytest.mark.slow
@each_row("name", EDITS)
def test_the_later_edit_is_shown_the_earlier_one(
    two: tuple[Client, Client], addresses: dict[str, tuple[object, ...]], cloud: Cloud, name: str
) -> None:
    field, first, second = EDITS[name]
    mine, theirs = two if name != "settings" else (two[0], two[0])
    ids = addresses.get(name) or addresses.get(name.partition("_")[0], ())
    address = reverse(f"dashboard:{name}", args=ids)
    opened = mine.get(address)
    answer = theirs.post(address, shown(theirs.get(address), **typed(field, first)))
    assert answer.status_code == 303, answer.context["form"].errors

    answer = mine.post(address, shown(opened, **typed(field, second)))
    assert answer.status_code == 422, name
    form, text = answer.context["form"], html.unescape(answer.content.decode())
    assert field in form.errors, form.errors
    assert ("You changed this" if name == "settings" else "olga changed this") in text
    again = shown(answer)
    if second is UNCHANGED:
        assert form[field].value() == first or not form[field].value()
    else:
        expected = typed(field, second)[field.replace("-", "__")]
        assert form[field].value() == expected
        labels = dict(getattr(form.fields[field].widget, "choices", ()))
        for each in typed(field, first)[field.replace("-", "__")] if isinstance(first, list) else [first]:
            assert str(labels.get(each, each)).strip() in text
    assert mine.post(address, again).status_code == 303, name


def test_the_same_change_twice_and_changes_of_other_records_are_saved(
    two: tuple[Client, Client], addresses: dict[str, tuple[object, ...]]
) -> None:
    mine, theirs = two
    address = reverse("dashboard:network_edit", args=addresses["network"])
    opened = [client.get(address) for client in two]
    for client, page in zip(two, opened, strict=True):
        assert client.post(address, shown(page, name="same")).status_code == 303
    router = reverse("dashboard:router_edit", args=addresses["router"])
    page = mine.get(router)
    assert theirs.post(address, shown(theirs.get(address), name="other")).status_code == 303
    assert mine.post(router, shown(page, name="mine")).status_code == 303


def test_the_editor_of_another_profile_is_not_named(two: tuple[Client, Client]) -> None:
    mine, theirs = two
    address = reverse("dashboard:settings")
    opened = mine.get(address)
    assert theirs.post(address, shown(theirs.get(address), description="hers")).status_code == 303
    User.objects.filter(name="olga").update(description="x")
    User.objects.exclude(name="olga").update(description="by an API")
    answer = mine.post(address, shown(opened, description="mine"))
    assert answer.context["form"].errors["description"][0].startswith("This was changed to “by an API”")


def test_only_values_that_a_user_saved_are_attributed_to_the_user(
    two: tuple[Client, Client], addresses: dict[str, tuple[object, ...]]
) -> None:
    mine, theirs = two
    address = reverse("dashboard:network_edit", args=addresses["network"])
    opened = mine.get(address)
    assert theirs.post(address, shown(theirs.get(address), name="theirs")).status_code == 303
    Network.objects.filter(name="theirs").update(description="by an API")
    assert theirs.post(address, shown(theirs.get(address), mtu="1300")).status_code == 303
    errors = mine.post(address, shown(opened, name="mine", description="mine", mtu="1400")).context["form"].errors
    begins = {name: errors[name][0].partition(" to ")[0] for name in ("name", "description", "mtu")}
    assert begins == {"name": "olga changed this", "description": "This was changed", "mtu": "olga changed this"}


def test_a_field_that_the_user_left_alone_gets_the_saved_value(
    two: tuple[Client, Client], addresses: dict[str, tuple[object, ...]]
) -> None:
    mine, theirs = two
    address = reverse("dashboard:network_edit", args=addresses["network"])
    opened = mine.get(address)
    assert theirs.post(address, shown(theirs.get(address), name="theirs")).status_code == 303
    answer = mine.post(address, shown(opened, description="mine"))
    assert answer.status_code == 422
    form = answer.context["form"]
    assert (form["name"].value(), form["description"].value()) == ("theirs", "mine")
    assert list(form.errors) == ["name"]
    assert mine.post(address, shown(answer)).status_code == 303
    form = mine.get(address).context["form"]
    assert (form["name"].value(), form["description"].value()) == ("theirs", "mine")


def test_a_change_before_copy_as_is_shown_when_the_form_is_saved(
    two: tuple[Client, Client], addresses: dict[str, tuple[object, ...]]
) -> None:
    mine, theirs = two
    address = reverse("dashboard:network_edit", args=addresses["network"])
    opened = mine.get(address)
    assert theirs.post(address, shown(theirs.get(address), name="theirs")).status_code == 303
    copied = mine.post(address, shown(opened, name="mine") | {ASKED: ""})
    assert copied.status_code == 200
    answer = mine.post(address, shown(copied))
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["name"]


@pytest.mark.parametrize(
    "sent",
    [
        *("", "x", "[]", '{"at": 1}', '{"at": "x", "fields": {}}', '{"at": 1, "fields": []}', "[" * 9999),
        '{"at": 1%s, "fields": {}}' % ("0" * 400),
    ],
)
def test_a_request_without_the_digests_is_saved(
    two: tuple[Client, Client], addresses: dict[str, tuple[object, ...]], sent: str
) -> None:
    address = reverse("dashboard:network_edit", args=addresses["network"])
    values = shown(two[0].get(address), name="new") | {SHOWN: sent}
    assert two[0].post(address, values).status_code == 303


class Named(Form):
    name = forms.CharField()


def named(value: str, saved: str = "old") -> Named:
    """Return a form that was opened when the name was "old", and is submitted with ``value``."""
    form = Named(initial={"name": "old"})
    opened_at = re.sub(r".*value=\"(.*)\">", r"\1", shown_input(form))
    data = QueryDict(mutable=True)
    data.update({"name": value, SHOWN: html.unescape(opened_at)})
    return Named(data, initial={"name": saved})


@each_row("aborted", [False, True])
def test_the_first_of_two_users_who_save_the_same_value_remains_its_editor(aborted: bool) -> None:
    record, first, second, third = uuid.uuid4().hex, *(context(name) for name in ("alice", "bob", "charlie"))
    remember(named("new"), record, first)
    stored = remember(named("new"), record, second)
    if aborted:
        forget(stored)
    form = named("other", saved="new")
    collision = collision_of(form, cast("QueryDict", form.data), record, third)
    assert collision is not None
    assert collision.messages["name"].startswith("alice changed this to “new”")
