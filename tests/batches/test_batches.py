"""Actions on many resources: one result for each, exactly once, with the rights of the moment."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.batches import kinds, retention, selectors, services
from provisioning.batches.kinds.declaration import BatchAction, Task
from provisioning.batches.models import Batch, BatchItem
from provisioning.batches.services import BatchRequest
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.events import selectors as events
from provisioning.identity.models import Role, RoleAssignment
from provisioning.identity.services.users import delete_user
from provisioning.images.models import Image
from provisioning.jobs import registry
from provisioning.network import services as network
from provisioning.network.selectors import uses
from provisioning.volumes.models import Backup, Snapshot, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.support.cast import Person
from tests.support.clouds import Cloud, state_of
from tests.support.jobs import drain, run_periodic
from tests.support.standing import standing


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("host-1")
    return cloud


@pytest.fixture
@standing
def three(alice: Person, cloud: Cloud) -> list[Instance]:
    made = [cloud.launch(alice.context, name=name) for name in ("web-1", "web-2", "db-1")]
    cloud.run()
    return made


def ask(person: Person, action: str, records: list[Any], kind: str = "instances", **more: Any) -> Batch:
    ids = [str(getattr(each, "pk", each)) for each in records]
    return services.create(person.context, BatchRequest(kind, action, ids, **more))


def results(batch: Batch) -> list[tuple[str, str]]:
    return list(batch.items.order_by("position").values_list("name", "state"))


def tasks(servers: list[Instance]) -> list[str | None]:
    return [state_of(each)[1] for each in servers]


def test_nothing_is_done_in_the_request_and_all_by_the_worker(alice: Person, three: list[Instance]) -> None:
    batch = ask(alice, "stop", three)
    assert tasks(three) == [None, None, None]
    drain()
    assert tasks(three) == ["powering-off"] * 3
    batch.refresh_from_db()
    assert results(batch) == [("web-1", "done"), ("web-2", "done"), ("db-1", "done")]
    assert (batch.done, batch.unsuccessful, batch.finished_at is not None) == (3, 0, True)
    assert InstanceAction.objects.filter(action="stop", user_id=alice.user_id).count() == 3


def test_each_refusal_has_its_reason(alice: Person, three: list[Instance], cloud: Cloud) -> None:
    ask(alice, "stop", three[:1])
    ask(alice, "lock", three[1:2])
    drain()
    cloud.run()
    batch = ask(alice, "start", three)
    drain()
    batch.refresh_from_db()
    assert results(batch) == [("web-1", "done"), ("web-2", "refused"), ("db-1", "refused")]
    assert (batch.done, batch.unsuccessful) == (1, 2)
    assert all(batch.items.filter(state="refused").values_list("reason", flat=True))


def test_foreign_and_unknown_ids_are_refused(charlie: Person, three: list[Instance]) -> None:
    batch = ask(charlie, "stop", [three[0], "nonsense", uuid.uuid4()])
    drain()
    batch.refresh_from_db()
    assert {state for _, state in results(batch)} == {"refused"}
    assert batch.finished_at is not None
    assert "web-1" not in str(results(batch))
    assert tasks(three) == [None, None, None]


def test_a_killed_worker_repeats_and_loses_nothing(
    alice: Person, three: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = ask(alice, "reboot", three)
    begin, killed = kinds.INSTANCES.action("reboot"), list[int]()
    assert begin is not None

    def dies_at_the_second(task: Task) -> object:
        answer = begin.run(task)
        if task.record.name == "web-2" and not killed:
            killed.append(1)
            raise SystemExit  # as the time limit of workers does: after the service call, before the commit
        return answer

    monkeypatch.setattr(services, "action_named", lambda *_: (kinds.INSTANCES, _with(begin, dies_at_the_second)))
    with pytest.raises(SystemExit):
        drain()
    assert results(batch) == [("web-1", "done"), ("web-2", "waiting"), ("db-1", "waiting")]
    assert tasks(three) == ["rebooting", None, None]
    Batch.objects.update(moved_at=timezone.now() - timedelta(minutes=5))
    run_periodic("batches.resume")
    drain()
    assert {state for _, state in results(batch)} == {"done"}
    assert InstanceAction.objects.filter(action="reboot").count() == 3


def _with(action: BatchAction, run: Any) -> BatchAction:
    return BatchAction(action.name, action.label, action.icon, action.rule, action.consequence, run)


def test_two_workers_do_each_item_once(alice: Person, three: list[Instance], monkeypatch: pytest.MonkeyPatch) -> None:
    batch = ask(alice, "reboot", three)
    reboot = kinds.INSTANCES.action("reboot")
    assert reboot is not None
    first = services._next(batch)
    services.run(batch.id)
    assert first is not None
    services._carry_out(batch, first, (kinds.INSTANCES, reboot))  # the other worker had read the item before
    batch.refresh_from_db()
    assert (batch.done, batch.unsuccessful) == (3, 0)
    assert InstanceAction.objects.filter(action="reboot").count() == 3


def test_an_item_that_kills_its_worker_is_given_up_and_the_rest_goes_on(alice: Person, three: list[Instance]) -> None:
    batch = ask(alice, "stop", three)
    job = registry.jobs[services.JOB]
    assert job.on_give_up is not None
    OrmQ.objects.all().delete()
    job.on_give_up("it died", batch_id=str(batch.id))
    drain()
    assert results(batch) == [("web-1", "failed"), ("web-2", "done"), ("db-1", "done")]


def test_an_internal_error_fails_one_item_and_an_outage_none(
    alice: Person, three: list[Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = kinds.INSTANCES.action("stop")
    assert stop is not None
    errors: list[Exception] = [ValueError("a bug"), DatabaseError("away")]

    def breaks(task: Task) -> object:
        if errors:
            raise errors.pop(0)
        return stop.run(task)

    monkeypatch.setattr(services, "action_named", lambda *_: (kinds.INSTANCES, _with(stop, breaks)))
    batch = ask(alice, "stop", three)
    with pytest.raises(DatabaseError):
        drain()
    services.run(batch.id)
    assert results(batch) == [("web-1", "failed"), ("web-2", "done"), ("db-1", "done")]
    assert tasks(three) == [None, "powering-off", "powering-off"]


def test_a_long_batch_is_queued_in_parts(alice: Person, three: list[Instance], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "ROUND", -1.0)
    batch = ask(alice, "stop", three)
    assert drain() == 4
    assert {state for _, state in results(batch)} == {"done"}


def test_a_batch_whose_message_waits_is_not_queued_twice(alice: Person, three: list[Instance]) -> None:
    ask(alice, "stop", three)
    Batch.objects.update(moved_at=timezone.now() - timedelta(minutes=5))
    run_periodic("batches.resume")
    assert OrmQ.objects.filter(key=services.TOPIC).count() == 1


def test_rights_that_are_taken_away_stop_the_rest(alice: Person, three: list[Instance]) -> None:
    batch = ask(alice, "stop", three)
    RoleAssignment.objects.filter(user=alice.user).update(role=Role.objects.get(name="reader"))
    drain()
    assert {state for _, state in results(batch)} == {"refused"}
    assert tasks(three) == [None, None, None]


def test_a_reader_begins_nothing(bob: Person, three: list[Instance]) -> None:
    with pytest.raises(ForbiddenError):
        ask(bob, "stop", three)


def test_requests_are_bounded(alice: Person, three: list[Instance], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_ITEMS", 2)
    for ids in ([], three):
        with pytest.raises(InvalidInputError):
            ask(alice, "stop", ids)
    with pytest.raises(NotFoundError):
        ask(alice, "explode", three[:1])
    monkeypatch.setattr(services, "MOST_AT_WORK", 1)
    ask(alice, "stop", three[:1])
    with pytest.raises(ConflictError):
        ask(alice, "stop", three[:1])
    drain()
    monkeypatch.setattr(services, "MOST_OF_USER", 1)
    ask(alice, "stop", three[:1])
    assert Batch.objects.count() == 1


def test_a_request_that_is_sent_twice_is_one_batch(alice: Person, three: list[Instance]) -> None:
    key = uuid.uuid4()
    assert ask(alice, "image", three, key=key) == ask(alice, "image", three, key=key)
    drain()
    assert Image.objects.filter(properties__instance_uuid__isnull=False).count() == 3


def test_tags_are_added_and_removed(alice: Person, three: list[Instance]) -> None:
    ask(alice, "tag", three, arguments={"tag": "lab"})
    ask(alice, "tag", three[:1], arguments={"tag": "lab"})
    drain()
    assert [Instance.objects.get(pk=each.pk).tags for each in three] == [["lab"]] * 3
    ask(alice, "untag", three, arguments={"tag": "lab"})
    batch = ask(alice, "untag", three, arguments={"tag": "lab"})
    drain()
    assert [Instance.objects.get(pk=each.pk).tags for each in three] == [[]] * 3
    assert {state for _, state in results(batch)} == {"done"}
    for wrong in ("", "a,b", "x" * 61):
        with pytest.raises(InvalidInputError):
            ask(alice, "tag", three, arguments={"tag": wrong})


def test_images_are_named_after_their_servers(alice: Person, three: list[Instance]) -> None:
    ask(alice, "image", three[:2], arguments={"ending": "-monday"})
    drain()
    assert set(Image.objects.values_list("name", flat=True)) >= {"web-1-monday", "web-2-monday"}


def test_kept_servers_are_deleted_for_good_only_when_that_was_confirmed(
    alice: Person, three: list[Instance], cloud: Cloud, settings: Any
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    one = three[:1]
    for permanent, state in (([], "soft-delete"), ([], "soft-delete"), ([str(one[0].id)], "deleted")):
        ask(alice, "delete", one, permanent=permanent)
        drain()
        cloud.run()
        assert state_of(one[0])[0] == state
    batch = ask(alice, "delete", three[1:2], permanent=[str(three[1].id)])
    Instance.objects.filter(pk=three[1].pk).update(vm_state="deleted")
    drain()
    assert results(batch) == [("web-2", "done")], "it was deleted in the meantime"


@pytest.mark.slow
def test_volumes_their_copies_addresses_and_keys(alice: Person, cloud: Cloud) -> None:
    cloud.agents["host-1"].serve()
    volumes = [Create.begin(alice.context, VolumeRequest(size_gb=1, name=name)) for name in ("a", "b")]
    cloud.run()
    ask(alice, "snapshot", volumes, "volumes", arguments={"ending": "-x"})
    cloud.run()
    assert sorted(Snapshot.objects.values_list("name", flat=True)) == ["a-x", "b-x"]
    ask(alice, "backup", volumes, "volumes", arguments={"ending": "-y"})
    cloud.run()
    assert sorted(Backup.objects.values_list("name", flat=True)) == ["a-y", "b-y"]
    Backup.objects.update(status="available")
    Volume.objects.update(status="available")
    ask(alice, "delete", list(Backup.objects.all()), "volume_backups")
    ask(alice, "delete", list(Snapshot.objects.all()), "volume_snapshots")
    cloud.run()
    assert not Snapshot.objects.exists()
    assert not Backup.objects.exclude(status="deleting").exists()
    ask(alice, "delete", volumes, "volumes")
    cloud.run()
    assert not Volume.objects.exists()
    outside = network.create_network(alice.project_id, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    addresses = [network.create_floating_ip(alice.project_id, outside) for _ in range(2)]
    batch = ask(alice, "release", addresses, "floating_ips")
    drain()
    assert results(batch) == [(each.address, "done") for each in addresses]
    pair, _ = create_key_pair(alice.context, "laptop")
    assert results(ask(alice, "delete", [pair, "other"], "key_pairs")) == [
        ("laptop", "waiting"),
        ("other", "refused"),
    ]
    drain()


def test_an_external_network_is_deleted_with_its_unassociated_floating_ips(cloud: Cloud, alice: Person) -> None:
    outside = network.create_network(alice.project_id, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    network.create_floating_ip(alice.project_id, outside)
    assert uses.blocking_ports(alice.context, outside, 9) == ([], 0)
    batch = ask(alice, "delete", [outside], "networks")
    drain()
    assert results(batch) == [("outside", "done")]


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("networks", lambda alice: network.create_network(alice.project_id, "net")),
        ("routers", lambda alice: network.create_router(alice.project_id, name="edge")),
        ("security_groups", lambda alice: network.create_security_group(alice.project_id, "front")),
    ],
)
def test_networking_is_deleted(alice: Person, charlie: Person, kind: str, make: Any) -> None:
    record = make(alice)
    batch = ask(charlie, "delete", [record], kind)
    drain()
    assert results(batch) == [(str(record.id), "refused")]
    batch = ask(alice, "delete", [record], kind)
    drain()
    assert results(batch) == [(record.name, "done")]
    assert not type(record).objects.filter(pk=record.pk).exists()


def test_every_kind_finds_nothing_for_strange_ids(alice: Person) -> None:
    for kind in kinds.KINDS.values():
        assert list(kind.find(alice.context, ["nonsense", str(uuid.uuid4()), ""])) == []


def test_the_tray_has_what_is_at_work_and_what_failed(alice: Person, bob: Person, three: list[Instance]) -> None:
    batch = ask(alice, "start", three)
    assert [each.batch for each in selectors.in_tray(alice.context)] == [batch]
    assert selectors.in_tray(bob.context) == []
    with pytest.raises(ConflictError):
        services.dismiss(alice.context, batch.id)
    drain()
    ((shown),) = selectors.in_tray(alice.context)
    assert [item.name for item in shown.unsuccessful] == ["web-1", "web-2", "db-1"]
    with pytest.raises(NotFoundError):
        services.dismiss(bob.context, batch.id)
    services.dismiss(alice.context, batch.id)
    assert selectors.in_tray(alice.context) == []
    assert selectors.batch_for(alice.context, batch.id) == batch
    with pytest.raises(NotFoundError):
        selectors.batch_for(bob.context, batch.id)


def test_success_leaves_the_tray_by_itself(alice: Person, three: list[Instance]) -> None:
    ask(alice, "stop", three)
    drain()
    assert len(selectors.in_tray(alice.context)) == 1
    Batch.objects.update(finished_at=timezone.now() - timedelta(minutes=5))
    assert selectors.in_tray(alice.context) == []


def test_the_users_pages_are_woken(alice: Person, three: list[Instance]) -> None:
    ask(alice, "stop", three)
    drain()
    woken = events.since([events.of_user(alice.user_id)], 0)
    assert len(woken) >= 2
    assert {event.kind for event in woken} == {"batch"}


def test_batches_are_deleted_by_age_and_with_their_user(alice: Person, three: list[Instance]) -> None:
    ask(alice, "stop", three)
    drain()
    over = retention.PURGED[0].over
    assert not over(timezone.now() - timedelta(days=1)).exists()
    assert over(timezone.now() + timedelta(days=1)).exists()
    delete_user(alice.user)
    assert not BatchItem.objects.exists()
