"""Ids of launches: the same key of the same caller gives the same servers, and nothing else does."""

from __future__ import annotations

from provisioning.compute.launch.create import launch
from provisioning.compute.launch.idempotency import LaunchIdentity, identity_of
from provisioning.compute.models import Instance
from tests.support.cast import People, Person
from tests.support.clouds import Cloud


def of(person: Person, cloud: Cloud, key: str | None) -> LaunchIdentity:
    return identity_of(person.context, cloud.request(idempotency_key=key))


def test_a_key_names_the_servers_of_one_person(people: People, cloud: Cloud) -> None:
    one = of(people.alice, cloud, "a")
    assert (one.repeatable, len(one.reservation_id), one.project_id) == (True, 32, people.alice.project_id)
    assert one == of(people.alice, cloud, "a")
    assert [one.instance_id(0), one.instance_id(1)] == [of(people.alice, cloud, "a").instance_id(n) for n in (0, 1)]
    others = [of(people.alice, cloud, "b"), of(people.charlie, cloud, "a")]
    assert len({each.instance_id(0) for each in (one, *others)} | {one.instance_id(1)}) == 4


def test_without_a_key_every_launch_is_a_new_one(people: People, cloud: Cloud) -> None:
    one, other = (of(people.alice, cloud, None) for _ in range(2))
    assert (one.repeatable, len(one.reservation_id)) == (False, 10)
    assert one.reservation_id != other.reservation_id
    assert one.instance_id(0) != one.instance_id(0)
    assert one.launched_before() == []
    launch(people.alice.context, cloud.request())
    launch(people.alice.context, cloud.request())
    assert Instance.objects.count() == 2


def test_a_repeated_launch_returns_the_servers_of_the_first(people: People, cloud: Cloud) -> None:
    request = cloud.request(idempotency_key="a", min_count=2, max_count=2)
    first = launch(people.alice.context, request)
    assert [each.id for each in of(people.alice, cloud, "a").launched_before()] == [each.id for each in first]
    assert [each.id for each in launch(people.alice.context, request)] == [each.id for each in first]
    assert Instance.objects.count() == 2
    assert of(people.charlie, cloud, "a").launched_before() == []
