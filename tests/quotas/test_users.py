"""Limits of single users in a project: as exact as the project's own, and never beyond them unless by force."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.compute import selectors as compute
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.resize import resize
from provisioning.compute.models import Instance
from provisioning.compute.services.key_pairs import create_key_pair
from provisioning.compute.services.metadata import set_metadata
from provisioning.compute.services.server_groups import create_server_group, delete_server_group
from provisioning.quotas import selectors
from provisioning.quotas.models import QuotaLimit, Reservation
from provisioning.quotas.recounts import drift
from provisioning.quotas.services.ledger import forget, hold
from provisioning.quotas.services.limits import reset_limits, set_limit, set_limits
from provisioning.quotas.services.repair import examine, repair
from tests.support.clouds import Cloud, context

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
MOST = {"instances": 10, "cores": 20, "ram": 51_200}


@pytest.fixture
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
def carol() -> RequestContext:
    """Another user of alice's project."""
    return context("carol", project="alice")


@pytest.fixture
def project(alice: RequestContext) -> uuid.UUID:
    assert alice.project_id is not None
    return alice.project_id


@pytest.fixture
def cloud(project: uuid.UUID) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("kelvin")
    return cloud


def bound(caller: RequestContext, **limits: int) -> None:
    assert caller.project_id is not None
    set_limits(caller.project_id, limits, user_id=caller.user_id)


def used(caller: RequestContext) -> dict[str, int]:
    assert caller.project_id is not None
    assert caller.user_id is not None
    return {name: many for name, many in selectors.usage_in(caller.project_id, caller.user_id).items() if many}


@pytest.mark.slow
@pytest.mark.parametrize(("resource", "limit"), [("instances", 1), ("cores", 1), ("ram", 1500)])
def test_a_user_launches_up_to_its_own_limit_and_others_go_on(
    cloud: Cloud, alice: RequestContext, carol: RequestContext, resource: str, limit: int
) -> None:
    bound(alice, **{resource: limit})
    server = cloud.launch(alice)
    with pytest.raises(OverQuotaError) as caught:
        cloud.launch(alice)
    assert (caught.value.resource, caught.value.limit, caught.value.of_user) == (resource, limit, True)
    assert (Instance.objects.count(), Reservation.objects.filter(resource=resource).count()) == (1, 1)
    cloud.launch(carol)
    cloud.run()
    assert used(alice) == used(carol) == {"instances": 1, "cores": 1, "ram": 1024}
    delete(alice, server.id)
    cloud.run()
    assert used(alice) == {}
    cloud.launch(alice)
    assert drift.find() == []


def test_several_at_once_are_as_many_as_both_limits_leave(
    cloud: Cloud, alice: RequestContext, carol: RequestContext, project: uuid.UUID
) -> None:
    bound(alice, cores=3)
    cloud.launch(alice, min_count=1, max_count=9)
    assert (used(alice)["instances"], used(alice)["cores"]) == (3, 3)
    set_limit(project, "instances", 5)
    cloud.launch(carol, min_count=1, max_count=9)
    assert used(carol)["instances"] == 2
    with pytest.raises(OverQuotaError) as caught:
        cloud.launch(carol)
    assert not caught.value.of_user


def test_a_resize_takes_of_the_owner_of_the_server(cloud: Cloud, alice: RequestContext, carol: RequestContext) -> None:
    server = cloud.launch(alice)
    cloud.run()
    bound(alice, cores=3)
    with pytest.raises(OverQuotaError) as caught:
        resize(carol, server.id, "2")
    assert (caught.value.resource, caught.value.used, caught.value.of_user) == ("cores", 1, True)
    assert used(alice)["cores"] == 1
    bound(alice, cores=4)
    resize(carol, server.id, "2")
    assert (used(alice)["cores"], used(carol)) == (4, {})
    cloud.run()
    assert drift.find() == []


@pytest.mark.slow
def test_server_groups_key_pairs_and_what_is_compared(
    cloud: Cloud, alice: RequestContext, carol: RequestContext
) -> None:
    bound(alice, server_groups=1, server_group_members=1, key_pairs=1, metadata_items=1)
    group = create_server_group(alice, "g", "affinity")
    with pytest.raises(OverQuotaError):
        create_server_group(alice, "h", "affinity")
    create_server_group(carol, "h", "affinity")
    create_key_pair(alice, "one")
    with pytest.raises(OverQuotaError):
        create_key_pair(alice, "two")
    server = cloud.launch(alice, metadata={"a": "1"}, scheduler_hints={"group": str(group.id)})
    cloud.launch(carol, metadata={"a": "1", "b": "2"}, scheduler_hints={"group": str(group.id)})
    for wrong in ({"metadata": {"a": "1", "b": "2"}}, {"scheduler_hints": {"group": str(group.id)}}):
        with pytest.raises(OverQuotaError):
            cloud.launch(alice, **wrong)
    cloud.run()
    with pytest.raises(OverQuotaError):
        set_metadata(alice, server.id, {"a": "1", "b": "2"})
    set_metadata(carol, server.id, {"a": "1", "b": "2"})
    delete_server_group(alice, group.id)
    assert used(alice) == {"instances": 1, "cores": 1, "ram": 1024}
    assert drift.find() == []


def test_an_unlimited_user_is_held_to_the_project(cloud: Cloud, alice: RequestContext, project: uuid.UUID) -> None:
    set_limits(project, {"cores": -1}, user_id=alice.user_id, force=True)
    set_limit(project, "cores", 1)
    cloud.launch(alice)
    with pytest.raises(OverQuotaError) as caught:
        cloud.launch(alice)
    assert (caught.value.limit, caught.value.of_user) == (1, False)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"cores": 21}, "less than or equal to 20"),
        ({"cores": -1}, "less than or equal to 20"),
        ({"cores": 0}, "already used and reserved 1"),
        ({"ports": 1}, None),
        ({"cores": 5, "ports": 501}, "less than or equal to 500"),
        ({"unicorns": 5}, "no quota named"),
        ({"cores": -2}, "-1 .unlimited"),
    ],
)
def test_a_users_limit_lies_between_what_is_used_and_what_the_project_leaves(
    cloud: Cloud, alice: RequestContext, project: uuid.UUID, limits: dict[str, int], word: str | None
) -> None:
    cloud.launch(alice)
    if word is not None:
        with pytest.raises(InvalidInputError, match=word):
            bound(alice, **limits)
        assert not QuotaLimit.objects.exists(), "all or none"
    else:
        bound(alice, **limits)
        assert selectors.limits_of(project)["ports"] == 1, "what only projects have is set for the project"


def test_users_share_what_the_project_has(
    cloud: Cloud, alice: RequestContext, carol: RequestContext, project: uuid.UUID
) -> None:
    bound(alice, cores=15)
    with pytest.raises(InvalidInputError, match="less than or equal to 5"):
        bound(carol, cores=6)
    bound(carol, cores=5)
    bound(alice, cores=15)
    with pytest.raises(InvalidInputError, match="greater than or equal to already used and reserved 20"):
        set_limits(project, {"cores": 19})
    set_limits(project, {"cores": 19}, force=True)
    set_limits(project, {"cores": 6}, user_id=carol.user_id, force=True)
    assert selectors.given_to_users(project) == {"cores": 21}
    assert selectors.projects_with_limits() == [project]
    assert selectors.bounds_of(project, carol.user_id).user == {"cores": 6}
    assert selectors.limits_of(project)["cores"] == 19, "a user's limit is not the project's"
    assert reset_limits(project, user_id=carol.user_id)
    assert selectors.given_to_users(project) == {"cores": 15}
    assert reset_limits(project)
    assert not QuotaLimit.objects.exists()


def test_what_binds_the_caller_is_what_pages_show(
    cloud: Cloud, alice: RequestContext, carol: RequestContext, project: uuid.UUID
) -> None:
    bound(alice, cores=3, ram=20_000)
    for caller in (alice, carol, carol):
        cloud.launch(caller)
    set_limit(project, "ram", 4096)
    result = compute.limits_for(alice)
    assert {name: (result.limits[name], result.usage[name]) for name in MOST} == {
        "instances": (10, 3),
        "cores": (3, 1),
        "ram": (4096, 3072),
    }
    assert compute.limits_for(alice, own=False).limits["cores"] == 20


def test_limits_go_with_their_user_and_their_project(alice: RequestContext, project: uuid.UUID, cloud: Cloud) -> None:
    assert alice.user_id is not None
    for gone in (alice.user_id, project):
        bound(alice, cores=3)
        forget([gone])
        assert not QuotaLimit.objects.exists()
    with pytest.raises(IntegrityError), transaction.atomic():
        QuotaLimit.objects.create(user_id=alice.user_id, resource="cores", limit=1)


def test_the_check_tells_whose_it_is_and_mends_it(
    cloud: Cloud, alice: RequestContext, carol: RequestContext, project: uuid.UUID
) -> None:
    cloud.launch(alice)
    Reservation.objects.filter(resource="cores").update(user_id=carol.user_id)
    Reservation.objects.filter(resource="ram").update(user_id=None)
    Reservation.objects.filter(resource="ports").update(user_id=carol.user_id)
    assert sorted((finding.kind, finding.resource) for finding in examine()) == [
        ("user", "cores"),
        ("user", "ports"),
        ("user", "ram"),
    ]
    assert alice.user_id is not None
    assert f"belongs to {alice.user_id.hex}" in str(examine()[0])
    repair()
    assert examine() == []
    assert used(alice) == {"instances": 1, "cores": 1, "ram": 1024}


def test_who_has_no_limit_asks_nothing_more_of_the_database(
    cloud: Cloud, alice: RequestContext, carol: RequestContext, project: uuid.UUID
) -> None:
    def queries(caller: RequestContext) -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            cloud.launch(caller)
        return len(captured)

    assert carol.user_id is not None
    cloud.launch(alice)
    plain = queries(alice)
    bound(carol, cores=9, ram=20_000)
    assert queries(alice) == plain
    bound(alice, metadata_items=9)
    assert queries(alice) == plain
    bound(alice, cores=9)
    assert queries(alice) == plain + 2, "what the user holds: to say how many fit, and while nobody else adds to it"
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        hold(project, uuid.uuid4(), {"server_groups": 1}, user_id=carol.user_id)
    statements: list[Any] = [each["sql"] for each in captured if "SUM(" in each["sql"]]
    assert statements == []
