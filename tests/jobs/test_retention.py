"""The purge: what is over for long goes, with all that hangs on it; what somebody still needs stays."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from provisioning.common.errors import ForbiddenError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Start, Stop
from provisioning.compute.models import (
    Allocation,
    Instance,
    InstanceAction,
    InstanceActionEvent,
    SchedulingDecision,
    Total,
    UsageAudit,
)
from provisioning.compute.selectors import totals
from provisioning.doctor.examinations.examination import examine
from provisioning.hosts.models import Host, JoinToken
from provisioning.identity.models import AccessRule
from provisioning.identity.records.retention import note_unused
from provisioning.identity.services import application_credentials as credentials
from provisioning.identity.services.application_credentials import RequestPattern
from provisioning.images.models import Image, ImageProperty
from provisioning.jobs import retention
from provisioning.jobs.jobs import purge as by_the_clock
from provisioning.jobs.models import WorkerBeat
from tests.support import invariants
from tests.support.cast import People
from tests.support.clouds import Cloud, context
from tests.support.standing import standing

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ROOT = Path(__file__).resolve().parents[2]
LONG_AGO = timedelta(days=200)


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    made = Cloud.make()
    made.add_host("one")
    return made


def deleted(cloud: Cloud, *, ago: timedelta = LONG_AGO) -> Instance:
    """A server that was built and deleted, some time ago."""
    alice = context("alice")
    server = cloud.launch(alice)
    cloud.run()
    delete(alice, server.id)
    cloud.run()
    age(server, ago)
    return server


def age(server: Instance, ago: timedelta) -> None:
    then = timezone.now() - ago
    Instance.objects.filter(id=server.id, deleted_at__isnull=False).update(deleted_at=then, terminated_at=then)
    InstanceAction.objects.filter(instance=server).update(started_at=then, finished_at=then)
    SchedulingDecision.objects.filter(instance=server).update(created_at=then)


def days_ago(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def test_every_kind_of_record_says_how_long_it_is_kept() -> None:
    labels = {model._meta.label for model in retention.every_model()} - {"django_q.OrmQ"}
    parts = [part.model for kind in retention.PURGED for part in kind.parts]
    purged = {model._meta.label for model in [*parts, *(kind.model for kind in retention.PURGED)]}
    kept = [label for rules in retention.UNPURGED for label in rules]
    assert labels > {"compute.Instance", "events.Event"}
    assert labels - purged - set(kept) == set(), "say in the app's retention module what removes its rows"
    assert not set(kept) - labels
    assert not set(kept) & purged
    assert len(set(kept)) == len(kept)


@pytest.mark.slow
def test_a_deleted_server_goes_with_its_history_and_leaves_the_metrics_as_they_were(cloud: Cloud) -> None:
    server = deleted(cloud)
    counted = {key: tally.count for key, tally in totals.totals().items()}
    counts = retention.count(days_ago(90))
    removed = retention.purge(days_ago(90))
    assert removed["deleted servers"] == counts["deleted servers"] == 1
    assert removed["actions"] == 2
    assert removed["steps of actions"] > 5
    assert not Instance.objects.filter(id=server.id).exists()
    for model in (InstanceAction, InstanceActionEvent, SchedulingDecision):
        assert not model._default_manager.exists()
    assert {key: tally.count for key, tally in totals.totals().items()} == counted
    assert Total.objects.exists()
    assert not any(retention.purge(days_ago(90)).values())
    invariants.check()
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler,conductor", beat_at=timezone.now())
    assert examine(pause=0) == []


@pytest.mark.slow
def test_a_server_deleted_lately_or_still_on_a_host_stays(cloud: Cloud) -> None:
    lately = deleted(cloud, ago=timedelta(days=1))
    held = deleted(cloud)
    Allocation.objects.create(instance=held, host=Host.objects.get(), attempt=1, vcpus=0, memory_mb=0, disk_gb=0)
    retention.purge(days_ago(90))
    assert set(Instance.objects.values_list("id", flat=True)) == {lately.id, held.id}
    assert InstanceAction.objects.filter(instance=held, action="create").exists()


@pytest.mark.slow
def test_a_living_server_keeps_how_it_was_made_and_what_was_done_last(cloud: Cloud) -> None:
    alice = context("alice")
    server = cloud.launch(alice)
    cloud.run()
    for act in (Stop.begin, Start.begin, Stop.begin, Start.begin):
        act(context("alice"), server.id)
        cloud.run()
    age(server, LONG_AGO)
    removed = retention.purge(days_ago(90))
    assert removed["deleted servers"] == 0
    assert list(InstanceAction.objects.order_by("id").values_list("action", flat=True)) == ["create", "start"]
    assert SchedulingDecision.objects.count() == 1
    assert Instance.objects.get().vm_state == "active"


@pytest.mark.both_databases("locks")
def test_deleted_images_old_join_tokens_and_old_audits_go(db: None) -> None:
    then, now = timezone.now() - LONG_AGO, timezone.now()
    gone = Image.objects.create(project_id=uuid.uuid4(), status="deleted", deleted_at=then)
    ImageProperty.objects.create(image=gone, name="a", digest="b")
    stays = Image.objects.create(project_id=uuid.uuid4(), status="active")
    JoinToken.objects.create(digest="a", expires_at=now, used_at=then)
    JoinToken.objects.create(digest="b", expires_at=now + timedelta(days=1))
    for ending in (then - LONG_AGO, then):
        UsageAudit.objects.create(host="one", period_beginning=ending, period_ending=ending, state="DONE")
    removed = retention.purge(days_ago(90))
    assert {name: many for name, many in removed.items() if many} == {
        "deleted images": 1,
        "join tokens": 1,
        "usage audits": 1,  # the last period would be audited again
    }
    assert Image.objects.get() == stays
    assert not ImageProperty.objects.exists()


@pytest.mark.slow
def test_access_rules_go_when_no_credential_has_named_them_for_long(people: People) -> None:
    alice = people.alice
    patterns = [RequestPattern("compute", "GET", f"/v2.1/servers/{name}") for name in "ab"]
    record, _ = credentials.create_application_credential(alice.user, alice.project, "one", access_rules=[patterns[0]])
    other, _ = credentials.create_application_credential(alice.user, alice.project, "two", access_rules=patterns)
    credentials.delete_application_credential(other)
    note_unused()
    AccessRule.objects.filter(unused_since__isnull=False).update(unused_since=days_ago(100))
    assert retention.purge(days_ago(90))["access rules"] == 1
    assert list(record.access_rules.values_list("path", flat=True)) == ["/v2.1/servers/a"]
    assert AccessRule.objects.count() == 1


def test_a_user_has_so_many_access_rules_and_unused_ones_make_room(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MOST_RULES_OF_USER", 3)
    alice = people.alice

    def make(name: str, *paths: str) -> Any:
        rules = [RequestPattern("compute", "GET", f"/{path}") for path in paths]
        return credentials.create_application_credential(alice.user, alice.project, name, access_rules=rules)[0]

    credentials.delete_application_credential(make("one", "a", "b"))
    make("two", "c", "d", "e")
    assert set(AccessRule.objects.values_list("path", flat=True)) == {"/c", "/d", "/e"}
    with pytest.raises(ForbiddenError):
        make("three", "f")
    assert AccessRule.objects.count() == 3


@pytest.mark.both_databases("locks")
def test_the_purge_goes_in_small_transactions_and_goes_on_where_it_was_broken_off(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    Image.objects.bulk_create(
        Image(project_id=uuid.uuid4(), status="deleted", deleted_at=timezone.now() - LONG_AGO) for _ in range(8)
    )
    assert retention.purge(days_ago(90), seconds=0)["deleted images"] == 3
    assert Image.objects.count() == 5
    assert retention.purge(days_ago(90), pause=0)["deleted images"] == 5


@pytest.mark.slow
def test_the_clock_keeps_everything_if_configured(cloud: Cloud, settings: Any) -> None:
    deleted(cloud)
    settings.RETENTION_DAYS = 0
    by_the_clock()
    assert Instance.objects.count() == 1
    settings.RETENTION_DAYS = 90
    by_the_clock()
    assert Instance.objects.count() == 0


@pytest.mark.slow
def test_the_command_says_what_would_go_and_removes_it(cloud: Cloud, settings: Any) -> None:
    deleted(cloud)

    def say(*arguments: str) -> dict[str, int]:
        out = StringIO()
        call_command("purge", *arguments, stdout=out)
        lines = [line.split(maxsplit=1) for line in out.getvalue().splitlines()[1:]]
        return {name: int(many) for many, name in lines}

    assert say("--dry-run", "--days", "300")["deleted servers"] == 0
    assert say("--dry-run")["deleted servers"] == 1
    assert say("--dry-run", "--before", f"{timezone.now():%Y-%m-%d}")["deleted servers"] == 1
    assert Instance.objects.count() == 1
    assert say("--days", "150")["deleted servers"] == 1
    assert Instance.objects.count() == 0
    settings.RETENTION_DAYS = 0
    for wrong in ([], ["--before", "soon"], ["--days", "-1"]):
        with pytest.raises(CommandError):
            say(*wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("days", "period", "starts"), [("90", "month", True), ("31", "month", False), ("0", "year", True)]
)
def test_what_an_audit_needs_is_kept(days: str, period: str, starts: bool, tmp_path: Path, database: str) -> None:
    named = {
        "NOVELLA_RETENTION_DAYS": days,
        "NOVELLA_INSTANCE_USAGE_AUDIT_PERIOD": period,
        "NOVELLA_DATA": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", "import portal.settings"],
        cwd=ROOT, env=os.environ | named, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) is starts
    assert starts or "NOVELLA_RETENTION_DAYS is 31" in done.stderr
