"""Queries whose SQL is made once: each use asks with its own values, and finds what the plain query finds."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import CharField, F, IntegerField, Model, QuerySet, UUIDField
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import (
    Prepared,
    PreparedDeleteReturning,
    PreparedInsert,
    PreparedUpdate,
    PreparedUpdateReturning,
)
from provisioning.common.database.repeated import Repeated
from provisioning.common.database.row_shapes import listed
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Instance, InstanceAction
from provisioning.events.models import Event
from provisioning.network.models import Port
from provisioning.quotas.models import QuotaUsage
from tests.support.clouds import Cloud, state_of
from tests.support.ports import guest_ports
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases("sql")]

BY_ID = Prepared(lambda key: Instance.objects.select_related("host").filter(id=key), key=UUIDField())
NAMES = Prepared(
    lambda project_id, name: Instance.objects.filter(project_id=project_id, name=name).values_list("id", "created_at"),
    project_id=UUIDField(),
    name=CharField(),
)
ADD = PreparedInsert(Event)
WITH_ADDRESSES = Prepared(
    lambda device_id: Port.objects.filter(device_id=device_id).prefetch_related("fixed_ips"), device_id=UUIDField()
)


def plain(row: Instance) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in Instance._meta.concrete_fields}


def test_it_finds_what_the_plain_query_finds_with_other_values_each_time(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    made = [cloud.launch(alice, name=name) for name in ("one", "two")]
    cloud.run()
    for instance in made:
        (result,) = BY_ID(key=instance.id)
        expected = Instance.objects.select_related("host").get(id=instance.id)
        assert plain(result) == plain(expected)
        assert result.host == expected.host
        with CaptureQueriesContext(connection) as queries:
            assert result.host is not None
            assert result.host.name == "kelvin"
        assert len(queries) == 0
        assert NAMES(project_id=instance.project_id, name=instance.name) == [(expected.id, expected.created_at)]
        (port,) = WITH_ADDRESSES(device_id=instance.id)
        assert [str(address) for address in port.fixed_ips.all()] == [
            str(address) for address in guest_ports().get(device_id=instance.id).fixed_ips.all()
        ]
    assert BY_ID(key=uuid.uuid4()) == []
    assert BY_ID.first(key=uuid.uuid4()) is None
    assert NAMES(project_id=uuid.uuid4(), name="one") == []


SHAPES: dict[str, Callable[[QuerySet[Any]], QuerySet[Any, Any]]] = {
    "records": lambda rows: rows,
    "with others": lambda rows: rows.select_related("instance__host"),
    "a part of each": lambda rows: rows.select_related("instance").only("action", "instance__name"),
    "annotated": lambda rows: rows.annotate(more=F("instance__attempt") + 1),
    "values": lambda rows: rows.values("action", "instance__name"),
    "tuples": lambda rows: rows.values_list("id", "instance__flavor", "started_at"),
    "named": lambda rows: rows.values_list("action", "finished_at", named=True),
    "flat": lambda rows: rows.values_list("instance_id", flat=True),
    "distinct": lambda rows: rows.order_by("started_at").values_list("action", flat=True).distinct(),
    "none": lambda rows: rows.none(),
}


def seen(row: Any) -> Any:
    """Return what can be seen of a row without reading more of it."""
    if not isinstance(row, Model):
        return row
    known = {name: value for name, value in vars(row).items() if name != "_state"}
    return row.pk, known, {name: other and seen(other) for name, other in row._state.fields_cache.items()}


@each_row("shape", SHAPES)
def test_rows_are_as_django_returns_them(cloud: Cloud, alice: RequestContext, shape: str) -> None:
    cloud.add_host("kelvin")
    cloud.launch(alice)
    cloud.run()
    cloud.launch(alice)  # this one has no host
    rows = SHAPES[shape](InstanceAction.objects.order_by("id"))
    assert [seen(row) for row in listed(rows)] == [seen(row) for row in rows]


def test_records_of_one_row_are_one_object(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    for _ in range(2):
        cloud.launch(alice)
    cloud.run()
    one, other = listed(Instance.objects.select_related("host"))
    assert one.host is other.host is not None


def test_a_value_cannot_become_a_part_of_the_statement(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.launch(alice, name="one")
    assert NAMES(project_id=instance.project_id, name="x' OR '1'='1") == []
    assert NAMES(project_id=instance.project_id, name="%s") == []


def test_a_parameter_that_is_missing_is_an_error(cloud: Cloud) -> None:
    with pytest.raises(KeyError):
        BY_ID()


def test_an_update_changes_the_rows_that_are_meant_and_says_how_many(cloud: Cloud, alice: RequestContext) -> None:
    owner = cloud.launch(alice).project_id
    mine = QuotaUsage.objects.get(project_id=owner, resource="instances")
    add = PreparedUpdate(
        lambda project_id, more: (
            QuotaUsage.objects.filter(project_id=project_id, resource="instances", reserved__lte=F("in_use") + more),
            {"in_use": F("in_use") + more},
        ),
        project_id=UUIDField(),
        more=IntegerField(),
    )
    assert add(project_id=owner, more=3) == 1
    assert QuotaUsage.objects.get(pk=mine.pk).in_use == mine.in_use + 3
    assert add(project_id=uuid.uuid4(), more=3) == 0
    assert add(project_id=owner, more=-3) == 0  # the condition has the value, too
    QuotaUsage.objects.filter(pk=mine.pk).update(in_use=mine.in_use)


def test_many_ids_are_one_parameter(cloud: Cloud, alice: RequestContext) -> None:
    made = {cloud.launch(alice, name=name).id for name in ("one", "two", "three")}
    requested = [*list(made)[:2], uuid.uuid4()]
    assert set(Instance.objects.filter(Among("id", requested)).values_list("id", flat=True)) == made & set(requested)
    prepared = Prepared(lambda ids: Instance.objects.filter(Among("id", ids)).values_list("id"), ids=Ids())
    assert {key for (key,) in prepared(ids=requested)} == made & set(requested)
    assert prepared(ids=[]) == []
    assert not Instance.objects.filter(Among("id", [])).exists()


def test_rows_are_written_as_by_bulk_create() -> None:
    for many in (0, 1, 3, 3, PreparedInsert.MOST + 1):
        before = set(Event.objects.values_list("id", flat=True))
        ADD(Event(topic=f"topic {number}", kind="%s", payload={"a": [number, None]}) for number in range(many))
        made = Event.objects.exclude(id__in=before).order_by("id")
        assert [(each.topic, each.kind, each.payload) for each in made] == [
            (f"topic {number}", "%s", {"a": [number, None]}) for number in range(many)
        ]
        assert all(timezone.now() - each.created_at < timedelta(minutes=5) for each in made)


def test_rows_that_conflict_are_ignored_or_update_others(cloud: Cloud, alice: RequestContext) -> None:
    instance, now = cloud.launch(alice), timezone.now()
    ignore = PreparedInsert(InstanceAction, unique=KEY, returning=("id", "action"))
    change = PreparedInsert(InstanceAction, unique=KEY, update=("message", "user_id"), returning=("user_id", "action"))

    def rows(*actions: str, **values: Any) -> Iterator[InstanceAction]:
        for action in actions:
            yield InstanceAction(instance=instance, request_id="req-1", action=action, started_at=now, **values)

    ((first, name),) = ignore(rows("one", message="first"))
    assert (InstanceAction.objects.get(id=first).message, name) == ("first", "one")
    more = [f"more {number}" for number in range(PreparedInsert.MOST)]
    assert {name for _, name in ignore(rows("one", "two", *more))} == {"two", *more}
    assert InstanceAction.objects.get(id=first).message == "first"
    assert ignore(rows("one")) == []
    user = uuid.uuid4()
    assert sorted(change(rows("one", "three", message="last", user_id=user))) == [(user, "one"), (user, "three")]
    assert InstanceAction.objects.get(id=first).message == "last"


KEY = ("instance", "request_id", "action")


def test_a_deletion_returns_what_it_deleted() -> None:
    ADD(Event(topic=f"topic {number}", kind="kind", payload={"number": number}) for number in range(3))
    forget = PreparedDeleteReturning(
        lambda topic: Event.objects.filter(topic=topic).values_list("created_at", "payload"), topic=CharField()
    )
    expected = [*Event.objects.filter(topic="topic 1").values_list("created_at", "payload")]
    assert forget(topic="topic 1") == expected != []
    assert forget(topic="topic 1") == []
    assert set(Event.objects.values_list("topic", flat=True)) >= {"topic 0", "topic 2"}


def test_an_update_returns_the_new_values(cloud: Cloud, alice: RequestContext) -> None:
    owner = cloud.launch(alice).project_id
    add = PreparedUpdateReturning(
        lambda project_id, names, more: (
            QuotaUsage.objects.filter(Among("project_id", names), project_id=project_id, resource__in=("cores", "ram"))
            .order_by("resource")
            .values_list("resource", "in_use", "project_id"),
            {"in_use": F("in_use") + more},
        ),
        project_id=UUIDField(),
        names=Ids(),
        more=IntegerField(),
    )
    assert sorted(add(project_id=owner, names=[owner], more=3)) == [("cores", 3, owner), ("ram", 3, owner)]
    assert add(project_id=owner, names=[], more=3) == []
    assert sorted(add(project_id=owner, names=[owner], more=-3)) == [("cores", 0, owner), ("ram", 0, owner)]


def test_threads_that_ask_together_get_their_own_rows(shared_cloud: Cloud, alice: RequestContext) -> None:
    made = [shared_cloud.launch(alice, name=f"server-{number}") for number in range(4)]
    wrong: list[str] = []
    fresh = Prepared(lambda key: Instance.objects.filter(id=key), key=UUIDField())

    def ask(instance: Instance) -> None:
        try:
            for _ in range(20):
                result = [row.name for row in fresh(key=instance.id)]
                if result != [instance.name]:
                    wrong.append(f"{result} instead of {instance.name}")
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=(instance,)) for instance in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_update_may_empty_a_column(cloud: Cloud, alice: RequestContext) -> None:
    say = PreparedUpdate(
        lambda key, message: (InstanceAction.objects.filter(instance_id=key), {"message": message}),
        key=UUIDField(),
        message=CharField(),
    )
    instance = cloud.launch(alice)
    for message in ("why", None):
        assert say(key=instance.id, message=message) == 1
        assert InstanceAction.objects.get(instance_id=instance.id).message == message


def test_all_statements_of_a_server_s_life_are_prepared(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "celsius"):
        cloud.add_host(name, documents=True)
    cloud.launch(alice)  # another guest of its network and group
    others: list[str] = []

    def note(execute: Callable[..., Any], sql: str, *values: Any) -> Any:
        if not isinstance(sql, Repeated) and "SAVEPOINT" not in sql:
            others.append(sql)
        return execute(sql, *values)

    for _ in range(2):  # the hosts get documents during the first life
        others.clear()
        with connection.execute_wrapper(note):
            instance = cloud.launch(alice)
            cloud.run()
            delete(alice, instance.id)
            cloud.run()
    assert state_of(instance) == ("deleted", None)
    assert others == []
