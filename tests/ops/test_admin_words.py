"""The words of the operators' pages: kinds of records, their fields, and the rules that they break."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from django.apps import apps
from django.contrib import admin as django_admin
from django.db import connection
from django.db.models import CheckConstraint, Model, TextChoices, UniqueConstraint
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.common import statuses
from portal.ops.shown import IN_DASHBOARD, OBJECT_PAGES, TASKS, label_of
from provisioning.compute.actions.delete import delete
from provisioning.hosts.models import Host
from provisioning.identity.services.groups import create_group
from provisioning.volumes.models import Volume
from provisioning.volumes.states import AttachStatus, BackupStatus, SnapshotStatus, VolumeStatus
from tests.support.cast import People
from tests.support.clouds import Cloud

SHOWN = list(django_admin.site._registry)


@pytest.mark.parametrize("model", apps.get_models(), ids=lambda model: model._meta.label)
def test_a_broken_rule_is_reported_in_a_sentence(model: type[Model]) -> None:
    """A rule over plain columns has Django's sentence with their names; the others have one of their own."""
    for rule in model._meta.constraints:
        plain = isinstance(rule, UniqueConstraint) and rule.condition is None and not rule.expressions
        if isinstance(rule, CheckConstraint | UniqueConstraint) and not plain:
            assert rule.name not in str(rule.get_violation_error_message()), rule.name
            assert str(rule.violation_error_message).endswith("."), rule.name


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("vcpus_total", "total vCPUs"),
        ("memory_mb_used", "memory used (MiB)"),
        ("host_ip", "host IP"),
        ("access_ip_v4", "access IPv4"),
        ("created_at", "created at"),
        ("mtu", "MTU"),
        ("image_id", "image ID"),
    ],
)
def test_labels_are_written_as_people_do(name: str, label: str) -> None:
    assert label_of(name) == label


def test_no_label_has_a_unit_or_term_of_programs() -> None:
    wrong = {
        f"{model.__name__}.{field.name}: {field.verbose_name}"
        for model in SHOWN
        for field in model._meta.concrete_fields
        if re.search(r"\b(gb|mb|ip|id|vcpus?|mtu|cidr|url|rbac|qos)\b", str(field.verbose_name))
    }
    assert not wrong


def test_each_kind_has_a_name_of_its_own() -> None:
    plurals = [str(model._meta.verbose_name_plural) for model in SHOWN]
    assert sorted(plurals) == sorted(set(plurals))
    assert not [each for each in plurals if each.endswith("ys") and each[-3] not in "aeiou"]


@pytest.mark.slow
def test_lists_of_the_dashboard_are_not_offered_twice(people: People, admin: Client) -> None:
    page = admin.get("/admin/").content.decode()
    for label, (listing, create) in IN_DASHBOARD.items():
        app, model = label.lower().split(".")
        assert f'href="/admin/{app}/{model}/"' not in page
        assert f'href="{reverse(f"dashboard:{listing}")}"' in page
        assert f'href="{reverse(f"dashboard:{create}")}"' in page
        assert f'href="{reverse(f"dashboard:{listing}")}"' in admin.get(f"/admin/{app}/{model}/").content.decode()


def test_lists_have_an_order_and_the_name_of_their_records(people: People, admin: Client, cloud: Cloud) -> None:
    for name in ("host-3", "host-2"):
        cloud.add_host(name)
    page = admin.get("/admin/hosts/host/").content.decode()
    assert page.index(">host-2<") < page.index(">host-3<")
    assert "<h1>Hosts</h1>" in page
    assert "to change" not in page


def test_a_host_leads_to_its_instances_and_says_numbers_with_units(people: People, admin: Client, cloud: Cloud) -> None:
    host = Host.objects.get()
    Host.objects.update(clock_difference=-0.05366969108581543, instances_allocated=3)
    page = admin.get(f"/admin/hosts/host/{host.pk}/change/").content.decode()
    assert f'href="/admin/compute/instance/?host__id__exact={host.pk}">3<' in page
    assert "0.05 s behind" in page
    assert "0.0536" not in page
    assert admin.get(f"/admin/compute/instance/?host__id__exact={host.pk}").status_code == 200


def test_filters_are_closed_and_stand_before_the_table(people: People, admin: Client, cloud: Cloud) -> None:
    page = admin.get("/admin/hosts/host/?enabled__exact=1").content.decode()
    assert page.index('id="changelist-filter"') < page.index('id="changelist-form"')
    assert not re.findall(r"<details[^>]*\sopen", page[page.index('id="changelist-filter"') :])
    assert "<strong>Yes</strong>" in page


def test_people_sign_out_and_find_the_dashboard(people: People, admin: Client) -> None:
    page = admin.get("/admin/").content.decode()
    assert "Log out" not in page
    assert "View site" not in page
    assert 'href="/">Dashboard</a>' in page


def test_each_kind_of_record_is_listed_under_one_task() -> None:
    listed = [label for labels in TASKS.values() for label in labels]
    assert sorted(listed) == sorted(model._meta.label for model in SHOWN)


@pytest.mark.slow
def test_the_start_page_is_grouped_by_task(people: People, admin: Client) -> None:
    page = admin.get("/admin/").content.decode()
    captions = re.findall(r"<caption>([^<]*)</caption>", page)
    assert captions == list(TASKS)
    assert "Recent actions" not in page
    part = page[page.index("<caption>Health") : page.index("<caption>Hosts and placement")]
    assert 'href="/admin/doctor/doctorrun/"' in part
    assert admin.get("/admin/compute/").status_code == 200


@pytest.mark.slow
def test_records_lead_to_their_pages_in_the_dashboard(people: People, admin: Client, cloud: Cloud) -> None:
    cloud.running(people.alice.context)
    create_group(people.alice.user.domain, "staff")
    for label, name in OBJECT_PAGES.items():
        model = apps.get_model(label)
        row = model._default_manager.first()
        assert row is not None
        address = reverse(f"dashboard:{name}", args=[row.pk])
        listing = f"/admin/{label.lower().replace('.', '/')}/"
        assert f'href="{address}"' in admin.get(listing).content.decode(), label
        assert f'href="{address}" class="viewsitelink"' in admin.get(f"{listing}{row.pk}/change/").content.decode()
        assert admin.get(address).status_code == 200, label


def test_a_deleted_instance_says_by_whom_and_has_no_dead_link(people: People, admin: Client, cloud: Cloud) -> None:
    server = cloud.running(people.alice.context)
    delete(replace(people.bob.context, roles=people.alice.context.roles), server.id)
    cloud.run()
    page = admin.get(f"/admin/compute/instance/{server.id}/change/").content.decode()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert f"Deleted by: {people.bob.user.name}" in text
    assert reverse("dashboard:instance", args=[server.id]) not in page
    assert 'href="#actions-group"' in page
    assert 'id="actions-group"' in page


@pytest.mark.parametrize(
    ("known", "labelled"),
    [
        (VolumeStatus, statuses.VOLUME_STATUS),
        (SnapshotStatus, statuses.SNAPSHOT_STATUS),
        (BackupStatus, statuses.BACKUP_STATUS),
        (AttachStatus, statuses.ATTACHMENT_STATUS),
    ],
)
def test_each_status_has_a_label(known: type[TextChoices], labelled: Mapping[str, statuses.Status]) -> None:
    assert set(known.values) == set(labelled)


def test_a_status_without_a_label_is_its_own() -> None:
    assert statuses.named("images.Image", "pending_delete").word == "Pending delete"


def test_lists_and_filters_show_the_statuses_of_the_dashboard(people: People, admin: Client, cloud: Cloud) -> None:
    for status in ("available", "error_deleting"):
        Volume.objects.create(
            project_id=people.alice.project_id, user_id=people.alice.user_id, size_gb=1, status=status
        )
    page = admin.get("/admin/volumes/volume/").content.decode()
    assert '<span class="status ok">Available</span>' in page
    assert '<span class="status bad">Could not be deleted</span>' in page
    links = re.findall(r'href="\?status=([a-z_]+)"[^>]*>\s*([^<]*?)\s*<', page)
    assert dict(links) == {"available": "Available", "error_deleting": "Could not be deleted"}


def test_a_longer_list_needs_no_more_queries(people: People, admin: Client, cloud: Cloud) -> None:
    owners = {"project_id": people.alice.project_id, "user_id": people.alice.user_id}
    Volume.objects.create(**owners, size_gb=1, status="available")
    admin.get("/admin/volumes/volume/")
    with CaptureQueriesContext(connection) as few:
        admin.get("/admin/volumes/volume/")
    for _ in range(3):
        Volume.objects.create(**owners, size_gb=1, status="available")
    with CaptureQueriesContext(connection) as many:
        admin.get("/admin/volumes/volume/")
    assert len(many) == len(few)
