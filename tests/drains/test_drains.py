"""Drains: the servers of a host go by a plan, a few at a time, each exactly once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.plans.moves import plan_host, plan_hosts, plan_servers
from provisioning.compute.services.hosts import enable_host
from provisioning.drains import execution, retention, services
from provisioning.drains.models import Drain, DrainItem
from provisioning.drains.restored import pause_drains
from provisioning.drains.selectors import drain_for, drains_for, items_of, progress_of
from provisioning.drains.services import DrainRequest
from provisioning.hosts.models import Host
from provisioning.identity.models import RoleAssignment
from tests.support.cast import Person
from tests.support.clouds import Cloud, state_of
from tests.support.jobs import drain as work
from tests.support.standing import standing


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("one", documents=True)
    return cloud


@pytest.fixture
@standing
def three(alice: Person, cloud: Cloud) -> list[Instance]:
    made = [cloud.launch(alice.context, name=name) for name in ("web-1", "web-2", "db-1")]
    cloud.run()
    return made


def host(name: str = "one") -> Host:
    return Host.objects.get(name=name)


def dies(name: str = "one") -> Host:
    """The host is down, and an operator has said so."""
    Host.objects.filter(name=name).update(last_seen_at=timezone.now() - timedelta(hours=1), forced_down=True)
    return host(name)


def states(drain: Drain) -> list[str]:
    return list(DrainItem.objects.filter(drain=drain).order_by("position").values_list("state", flat=True))


def stop_all(person: Person) -> Drain:
    return services.begin(person.context, host(), DrainRequest(("stop",), "new disk"))


class TestStops:
    """A host that is up and whose servers are stopped."""

    @pytest.mark.both_databases("locks")
    def test_a_few_at_a_time_until_all_are_done(
        self, operator: Person, cloud: Cloud, three: list[Instance], settings: Any
    ) -> None:
        settings.DRAIN_MOVES = 2
        drain = stop_all(operator)
        assert (host().enabled, host().disabled_reason, host().disabled_by) == (
            False,
            "new disk",
            operator.context.user_name,
        )
        assert states(drain) == ["waiting"] * 3
        work()
        assert sorted(states(drain)) == ["moving", "moving", "waiting"]
        execution.run(drain.id)
        assert sorted(states(drain)) == ["moving", "moving", "waiting"]
        cloud.run()
        execution.run(drain.id)
        cloud.run()
        execution.run(drain.id)
        assert states(drain) == ["done"] * 3
        assert [state_of(each) for each in three] == [("stopped", None)] * 3
        drain.refresh_from_db()
        assert (drain.state, drain.finished_at is not None) == ("finished", True)
        assert InstanceAction.objects.filter(action="stop", user_id=operator.user_id).count() == 3

    def test_paused_continued_and_cancelled(
        self, operator: Person, cloud: Cloud, three: list[Instance], settings: Any
    ) -> None:
        settings.DRAIN_MOVES = 1
        drain = stop_all(operator)
        services.pause(operator.context, drain.id)
        work()
        assert states(drain) == ["waiting"] * 3
        with pytest.raises(ConflictError):
            services.pause(operator.context, drain.id)
        services.resume(operator.context, drain.id)
        work()
        assert sorted(states(drain)) == ["moving", "waiting", "waiting"]
        services.cancel(operator.context, drain.id)
        assert sorted(states(drain)) == ["cancelled", "cancelled", "moving"]
        cloud.run()
        execution.run_all()
        drain.refresh_from_db()
        assert (sorted(states(drain)), drain.state) == (["cancelled", "cancelled", "done"], "cancelled")
        assert not host().enabled
        with pytest.raises(ConflictError):
            services.resume(operator.context, drain.id)

    def test_a_failed_action_is_reported(
        self, operator: Person, cloud: Cloud, three: list[Instance], settings: Any
    ) -> None:
        settings.DRAIN_MOVES = 10
        drain = stop_all(operator)
        work()
        Instance.objects.filter(id=three[0].id).update(task_state=None)  # as a reset by an operator
        execution.run(drain.id)
        [failed] = DrainItem.objects.filter(drain=drain, state="failed")
        assert (failed.instance_id, bool(failed.reason)) == (three[0].id, True)
        cloud.run()

    def test_a_busy_server_gets_its_turn_later(self, operator: Person, cloud: Cloud, three: list[Instance]) -> None:
        Instance.objects.filter(id=three[0].id).update(task_state="rebooting")
        drain = stop_all(operator)
        execution.run(drain.id)
        item = DrainItem.objects.get(drain=drain, instance_id=three[0].id)
        assert (item.state, item.tries) == ("waiting", 1)
        Instance.objects.filter(id=three[0].id).update(task_state=None)
        for _ in range(4):
            execution.run(drain.id)
            cloud.run()
        execution.run(drain.id)
        assert states(drain) == ["done"] * 3

    def test_a_deleted_server_is_done(self, operator: Person, cloud: Cloud, three: list[Instance]) -> None:
        drain = stop_all(operator)
        work()
        moving = DrainItem.objects.filter(drain=drain, state="moving").values_list("instance_id", flat=True)
        Instance.objects.filter(id__in=list(moving)).update(vm_state="deleted")
        execution.run(drain.id)
        assert states(drain).count("done") == 2
        Instance.objects.filter(vm_state="deleted").update(vm_state="active")
        cloud.run()

    def test_what_happened_before_a_servers_turn_counts(
        self, operator: Person, cloud: Cloud, three: list[Instance]
    ) -> None:
        """Users and operators move, stop and delete waiting servers; those are neither stopped nor failed."""
        drain = stop_all(operator)
        elsewhere = cloud.add_host("two").host
        [moved, stopped, deleted] = three
        Instance.objects.filter(id=moved.id).update(host=elsewhere)
        Instance.objects.filter(id=stopped.id).update(vm_state="stopped")
        Instance.objects.filter(id=deleted.id).update(vm_state="deleted", deleted_at=timezone.now())
        execution.run(drain.id)
        assert states(drain) == ["done"] * 3
        assert len(set(DrainItem.objects.filter(drain=drain).values_list("reason", flat=True))) == 3
        assert not InstanceAction.objects.filter(action="stop").exists()
        assert state_of(moved) == ("active", None)

    def test_rights_are_those_of_the_moment(self, operator: Person, cloud: Cloud, three: list[Instance]) -> None:
        drain = stop_all(operator)
        RoleAssignment.objects.filter(user_id=operator.user_id).delete()
        work()
        assert states(drain) == ["failed"] * 3
        assert [state_of(each) for each in three] == [("active", None)] * 3

    def test_servers_come_back(self, operator: Person, cloud: Cloud, three: list[Instance], settings: Any) -> None:
        settings.DRAIN_MOVES = 10
        drain = stop_all(operator)
        with pytest.raises(ConflictError):
            services.bring_back(operator.context, drain.id)
        work()
        cloud.run()
        execution.run(drain.id)
        with pytest.raises(ConflictError):
            services.bring_back(operator.context, drain.id)  # the host is in maintenance
        enable_host(operator.context, host().id)
        back = services.bring_back(operator.context, drain.id)
        work()
        cloud.run()
        execution.run(back.id)
        assert [state_of(each) for each in three] == [("active", None)] * 3
        assert states(back) == ["done"] * 3


class TestEvacuations:
    """A host that is down."""

    def test_they_go_to_other_hosts(self, operator: Person, cloud: Cloud, three: list[Instance], settings: Any) -> None:
        settings.DRAIN_MOVES = 10
        cloud.add_host("two")
        plan = plan_host(dies(), ["evacuate"], host_up=False)
        assert [move.target for move in plan.moves] == ["two"] * 3
        drain = services.begin(operator.context, host(), DrainRequest())
        work()
        cloud.agents.pop("one")
        cloud.run()
        execution.run(drain.id)
        assert states(drain) == ["done"] * 3
        assert {item.target for item in items_of(drain)} == {"two"}
        assert Instance.objects.filter(host=host("two")).count() == 3

    def test_without_room_they_stay_and_it_says_what_to_change(
        self, operator: Person, cloud: Cloud, three: list[Instance]
    ) -> None:
        dies()
        drain = services.begin(operator.context, host(), DrainRequest())
        assert states(drain) == ["stays"] * 3
        work()
        assert Drain.objects.get().state == "finished"
        cloud.add_host("two", memory_mb=1024)
        plan = plan_host(host(), ["evacuate"], host_up=False)
        assert [bool(move.target) for move in plan.moves] == [True, False, False]
        assert [(bool(move.reason), bool(move.change)) for move in plan.blocked] == [(True, True)] * 2


class TestMigrations:
    """A host that is up, and another one with room."""

    @pytest.fixture(autouse=True)
    def other(self, three: list[Instance], cloud: Cloud, settings: Any) -> None:
        settings.DRAIN_MOVES = 10
        cloud.add_host("two", documents=True)
        for number, each in enumerate(Host.objects.order_by("name"), 1):
            Host.objects.filter(id=each.id).update(host_ip=f"198.51.100.{number}")

    def follow(self, cloud: Cloud, drain: Drain) -> None:
        for _ in range(4):
            cloud.run()
            execution.run(drain.id)

    @pytest.mark.slow
    @pytest.mark.parametrize("way", ["live", "cold"])
    def test_they_move_and_come_back(self, operator: Person, cloud: Cloud, three: list[Instance], way: str) -> None:
        drain = services.begin(operator.context, host(), DrainRequest((way,)))
        assert {item.way for item in items_of(drain)} == {way}
        self.follow(cloud, drain)
        assert states(drain) == ["done"] * 3
        assert [state_of(each) for each in three] == [("active", None)] * 3
        assert {cloud.fresh(each).host_name for each in three} == {"two"}
        assert (host().instances_allocated, host("two").instances_allocated) == (0, 3)
        enable_host(operator.context, host().id)
        back = services.bring_back(operator.context, drain.id)
        self.follow(cloud, back)
        assert states(back) == ["done"] * 3
        assert {cloud.fresh(each).host_name for each in three} == {"one"}
        assert (host().instances_allocated, host("two").instances_allocated) == (3, 0)

    def test_the_most_careful_way_comes_first(self, cloud: Cloud, three: list[Instance]) -> None:
        Instance.objects.filter(id=three[0].id).update(vm_state="stopped")
        plan = plan_host(host(), services.usual_ways(host()), host_up=True)
        assert sorted(move.way for move in plan.moves) == ["cold", "live", "live"]
        Instance.objects.filter(id=three[0].id).update(vm_state="active")

    def test_the_queries_of_a_plan_do_not_grow_with_its_servers(self, cloud: Cloud, three: list[Instance]) -> None:
        counts = []
        known = list(Instance.objects.select_related("host").filter(id__in=[each.id for each in three]))
        for servers in (known[:1], known):
            with CaptureQueriesContext(connection) as queries:
                planned = plan_servers(servers, host(), services.usual_ways(host()), host_up=True)
            assert [move.way for move in planned] == ["live"] * len(servers)
            counts.append(len(queries))
        assert counts[0] == counts[1]

    @pytest.mark.parametrize(
        ("state", "words"),
        [("resized", "Confirm or revert"), ("rescued", "It is rescued"), ("suspended", "It is suspended")],
    )
    def test_servers_that_stay_are_reported_by_their_state(
        self, cloud: Cloud, three: list[Instance], state: str, words: str
    ) -> None:
        Instance.objects.filter(id=three[0].id).update(vm_state=state)
        for ways in (["live"], ["cold"], services.usual_ways(host())):
            [blocked] = [move for move in plan_host(host(), ways, host_up=True).moves if move.blocked]
            assert words in blocked.reason
        Instance.objects.filter(id=three[0].id).update(vm_state="active")

    def test_the_rest_is_stopped_only_if_that_was_chosen(
        self, operator: Person, cloud: Cloud, three: list[Instance]
    ) -> None:
        Instance.objects.filter(id=three[0].id).update(vm_state="paused")
        Host.objects.filter(name="two").update(memory_mb_total=1024)
        [moves, stops, stays] = [
            [move.instance.name for move in plan_host(host(), ["cold", "stop"], host_up=True).moves if test(move)]
            for test in (
                lambda move: move.target == "two",
                lambda move: move.way == "stop",
                lambda move: move.blocked,
            )
        ]
        assert ([len(moves), len(stops)], stays) == ([1, 1], ["web-1"])
        assert len(plan_host(host(), ["cold"], host_up=True).blocked) == 2
        Instance.objects.filter(id=three[0].id).update(vm_state="active")


def test_one_drain_of_a_host_at_a_time(operator: Person, cloud: Cloud, three: list[Instance]) -> None:
    stop_all(operator)
    with pytest.raises(ConflictError):
        stop_all(operator)
    assert Drain.objects.count() == 1


def test_only_operators_drain(alice: Person, operator: Person, cloud: Cloud, three: list[Instance]) -> None:
    with pytest.raises(ForbiddenError):
        stop_all(alice)
    drain = stop_all(operator)
    for refused in (drains_for, lambda context: drain_for(context, drain.id)):
        with pytest.raises(ForbiddenError):
            refused(alice.context)
    for service in (services.pause, services.cancel, services.resume, services.bring_back):
        with pytest.raises(ForbiddenError):
            service(alice.context, drain.id)
    with pytest.raises(NotFoundError):
        drain_for(operator.context, "00000000-0000-0000-0000-000000000000")


def test_only_ways_that_are_possible_now(operator: Person, cloud: Cloud, three: list[Instance]) -> None:
    for wrong in ("evacuate", "fly"):
        with pytest.raises(InvalidInputError):
            services.begin(operator.context, host(), DrainRequest((wrong,)))
    assert host().enabled
    dies()
    with pytest.raises(InvalidInputError):
        services.begin(operator.context, host(), DrainRequest(("stop",)))


def test_a_stopped_server_stays_without_being_interrupted(
    operator: Person, cloud: Cloud, three: list[Instance]
) -> None:
    Instance.objects.filter(id=three[0].id).update(vm_state="stopped")
    plan = plan_host(host(), ["stop"], host_up=True)
    assert [(move.instance.name, move.idle, move.blocked) for move in plan.moves if not move.way] == [
        ("web-1", True, False)
    ]
    assert plan.seconds(2) == sum(move.seconds for move in plan.moves) / 2 > 0
    Instance.objects.filter(id=three[0].id).update(vm_state="active")


def test_each_host_is_planned_as_if_only_it_died(cloud: Cloud, three: list[Instance], alice: Person) -> None:
    cloud.add_host("two", memory_mb=3072)
    Host.objects.filter(name="one").update(enabled=False)
    cloud.launch(alice.context, name="other")
    cloud.run()
    Host.objects.update(enabled=True)
    plans = plan_hosts(list(Host.objects.order_by("name")), ["evacuate"], host_up=False)
    assert [len(plan.going) for plan in plans.values()] == [
        2,
        1,
    ]  # only ``two`` and its 2 GiB for the servers of ``one``


def test_progress_counts_servers(operator: Person, cloud: Cloud, three: list[Instance]) -> None:
    drain = stop_all(operator)
    work()
    result = progress_of(drain, items_of(drain), 2)
    assert (result.total, result.moving, result.waiting, result.percent) == (3, 2, 1, 0)
    assert result.seconds > 0
    services.cancel(operator.context, drain.id)
    cloud.run()
    execution.run(drain.id)
    drain.refresh_from_db()
    assert progress_of(drain, items_of(drain), 2).percent == 100
    [purged] = retention.PURGED
    assert list(purged.over(timezone.now() + timedelta(seconds=1))) == [drain]


def test_a_drain_of_a_restored_copy_moves_nothing_until_it_is_resumed(
    operator: Person, cloud: Cloud, three: list[Instance]
) -> None:
    stopping = stop_all(operator)
    assert pause_drains()
    assert not pause_drains()
    work()
    assert states(stopping) == ["waiting"] * 3
    services.resume(operator.context, stopping.id)
    work()
    assert "moving" in states(stopping)
