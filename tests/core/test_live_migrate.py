"""Live migrations: one guest, where the records say, whatever either host reports or leaves out."""

from __future__ import annotations

from datetime import timedelta
from unittest import mock

import pytest
from django.utils import timezone

from compute_agent.contract.calls import CallError
from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.migration import (
    RECEIVER_TRAIT,
    TIME_LIMIT,
    UNDECIDED,
    ControlMigrationCall,
    KeepLiveRequest,
    MigrationControlled,
    ReceiveLiveRequest,
    SendLiveRequest,
)
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.live_migrate import (
    LiveMigrate,
    LiveMigration,
    abort_live_migration,
    force_live_migration,
)
from provisioning.compute.actions.power import Stop
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceFault, Migration, MoveAllocation
from provisioning.compute.moves import live
from provisioning.compute.moves.live import live_migration_for, live_migrations_for
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.network.models import Port
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db

MIGRATING, AT_REST = ("active", "migrating"), ("active", None)


@pytest.fixture
def hosts(cloud: Cloud) -> dict[str, ScriptedAgent]:
    result = {name: cloud.add_host(name) for name in ("one", "two")}
    for number, agent in enumerate(result.values(), 1):
        Host.objects.filter(id=agent.host.id).update(
            host_ip=f"192.0.2.{number}", traits=[RECEIVER_TRAIT], contract_version=agent.host.contract_version
        )
        agent.host.host_ip = f"192.0.2.{number}"
    return result


@pytest.fixture
def server(cloud: Cloud, hosts: dict[str, ScriptedAgent], alice: RequestContext) -> Instance:
    return cloud.running(alice)


def operator() -> RequestContext:
    return context("operator", ADMIN)


def migrate(server: Instance, host: str = "", *, block_migration: bool | None = None) -> Instance:
    return LiveMigrate.begin(operator(), server.id, LiveMigration(host, block_migration))


class Two:
    """The two hosts of a server's migration, which act only when they are told to."""

    def __init__(self, cloud: Cloud, server: Instance) -> None:
        self.cloud, self.server = cloud, server
        self.source = cloud.agent_of(server)
        [self.target] = [agent for agent in cloud.agents.values() if agent is not self.source]

    def listening(self) -> Command:
        """Begin, and let the target listen; return the target's command."""
        migrate(self.server)
        drain()
        [receive] = self.target.take()
        assert isinstance(receive.body, ReceiveLiveRequest)
        self.target.listens(receive)
        drain()
        return receive

    def sending(self) -> tuple[Command, Command]:
        """Also let the source take its command; return both commands."""
        receive = self.listening()
        [send] = self.source.take()
        assert isinstance(send.body, SendLiveRequest)
        return receive, send

    def arrives(self, receive: Command) -> None:
        """Let the guest run on the target, and report it."""
        key = receive.subject_id
        self.target.guests[key] = (receive.generation, PowerState.RUNNING)
        self.source.guests[key] = (self.source.guests[key][0], PowerState.SHUTDOWN)
        self.target.report(receive, "finished", power_state=PowerState.RUNNING)

    def goes_on_at_source(self, status: str) -> None:
        """Assert that the migration is over, and that nothing is left on the target."""
        self.cloud.run()
        now = self.cloud.fresh(self.server)
        assert (state_of(now), now.host_name) == (AT_REST, self.source.host.name)
        assert Migration.objects.get().status == status
        assert not MoveAllocation.objects.exists()
        assert self.target.guests == {}
        assert list(self.source.guests) == [str(self.server.id)]
        invariants.check()


@pytest.fixture
def two(cloud: Cloud, server: Instance) -> Two:
    return Two(cloud, server)


# ----- well -----------------------------------------------------------------------------------------------------------


def test_the_server_runs_on_the_other_host_with_its_ports(cloud: Cloud, two: Two) -> None:
    server = two.server
    before = list(Port.objects.filter(device_id=str(server.id)).values_list("id", "mac_address"))
    moving = migrate(server)
    assert state_of(moving) == MIGRATING
    assert Allocation.objects.get(instance=server).host_id == two.source.host.id
    assert MoveAllocation.objects.get(instance=server).host_id == two.target.host.id
    invariants.check()
    cloud.run()
    now = cloud.fresh(server)
    assert (state_of(now), now.host_name, now.guest_attempt) == (AT_REST, two.target.host.name, None)
    ports = Port.objects.filter(device_id=str(server.id))
    assert list(ports.values_list("id", "mac_address")) == before
    assert {port.host for port in ports} == {two.target.host.name}
    assert (list(two.source.guests), list(two.target.guests)) == ([], [str(server.id)])
    assert Allocation.objects.get(instance=server).host_id == two.target.host.id
    assert not MoveAllocation.objects.exists()
    row = Migration.objects.get()
    assert (row.migration_type, row.status) == ("live-migration", "completed")
    assert (row.source_compute, row.dest_compute) == (two.source.host.name, two.target.host.name)
    done = InstanceAction.objects.get(action="live-migration")
    assert (done.message, done.finished_at is not None) == (None, True)
    invariants.check()


def test_the_server_goes_back_and_forth(cloud: Cloud, two: Two) -> None:
    for expected in (two.target, two.source, two.target):
        migrate(two.server)
        cloud.run()
        assert cloud.fresh(two.server).host_name == expected.host.name
        assert state_of(two.server) == AT_REST
    assert list(two.target.guests) == [str(two.server.id)]
    assert two.source.guests == {}
    invariants.check()


def test_the_source_is_notified_of_where_to_send(two: Two, settings: object) -> None:
    _, send = two.sending()
    assert isinstance(send.body, SendLiveRequest)
    assert (send.body.address, send.body.tcp_port) == (two.target.host.host_ip, 11832)
    assert str(two.target.host.id) in send.body.tls_hostname
    assert Migration.objects.get().status == "running"


def test_the_source_may_report_first(cloud: Cloud, two: Two) -> None:
    receive, send = two.sending()
    two.source.report(send, "finished", power_state=PowerState.NOSTATE)
    assert state_of(two.server) == MIGRATING
    two.arrives(receive)
    cloud.run()
    assert cloud.fresh(two.server).host_name == two.target.host.name
    assert two.source.guests == {}
    invariants.check()


def test_bytes_are_recorded(two: Two) -> None:
    _, send = two.sending()
    two.source.report(
        send, "progress", detail={"done": "50", "total": "90", "disk_done": "20", "disk_total": "30", "x": "1"}
    )
    row = Migration.objects.get()
    assert (row.memory_total_bytes, row.memory_processed_bytes, row.memory_remaining_bytes) == (60, 30, 30)
    assert (row.disk_total_bytes, row.disk_processed_bytes, row.disk_remaining_bytes) == (30, 20, 10)


@pytest.mark.parametrize("text", ["-1", "1e9", "9" * 40, ""])
def test_senseless_bytes_are_ignored(two: Two, text: str) -> None:
    _, send = two.sending()
    two.source.report(send, "progress", detail={"done": text, "total": text, "disk_total": "5"})
    row = Migration.objects.get()
    assert (row.memory_total_bytes, row.disk_total_bytes) == (0, 5)


# ----- refused --------------------------------------------------------------------------------------------------------


def test_a_host_that_cannot_receive_is_named_as_the_reason(two: Two) -> None:
    Host.objects.filter(id=two.target.host.id).update(traits=[])
    with pytest.raises(InvalidInputError, match="cannot receive running guests"):
        migrate(two.server)
    assert state_of(two.server) == AT_REST
    assert not Migration.objects.exists()


def test_a_full_host_is_no_target(two: Two) -> None:
    Host.objects.filter(id=two.target.host.id).update(memory_mb_total=64)
    with pytest.raises(InvalidInputError, match="No valid host"):
        migrate(two.server)


def test_requested_hosts_are_checked(two: Two) -> None:
    for name in ("nowhere", two.source.host.name):
        with pytest.raises(InvalidInputError):
            migrate(two.server, name)
    Host.objects.filter(id=two.target.host.id).update(last_seen_at=timezone.now() - timedelta(hours=1), connected=False)
    with pytest.raises(InvalidInputError, match="unavailable"):
        migrate(two.server, two.target.host.name)


def test_a_server_with_an_image_that_was_deleted_stays(two: Two) -> None:
    Image.objects.filter(id=two.server.image_id).update(status=Image.Status.DELETED)
    with pytest.raises(ConflictError, match="image"):
        migrate(two.server)
    assert state_of(two.server) == AT_REST
    assert not MoveAllocation.objects.exists()


def test_disks_that_are_not_shared_need_block_migration(two: Two) -> None:
    with pytest.raises(InvalidInputError, match="shared storage"):
        migrate(two.server, block_migration=False)


def test_a_host_that_is_down_sends_nothing(two: Two) -> None:
    Host.objects.filter(id=two.source.host.id).update(last_seen_at=timezone.now() - timedelta(hours=1), connected=False)
    with pytest.raises(ConflictError):
        migrate(two.server)


def test_nothing_else_begins_during_a_migration(two: Two) -> None:
    two.sending()
    with pytest.raises(InstanceBusyError):
        migrate(two.server)
    with pytest.raises(InstanceBusyError):
        Stop.begin(operator(), two.server.id)
    with pytest.raises(ConflictError):
        ResetState.begin(operator(), two.server.id, "error")


def test_of_two_migrations_that_begin_at_the_same_time_one_is_refused(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second request begins after the first one has read the server."""
    checked, others = live.check_movable, [two.server]

    def check_slowly(*args: object, **wanted: object) -> None:
        if others:
            migrate(others.pop())
        checked(*args, **wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(live, "check_movable", check_slowly)
    with pytest.raises(InstanceBusyError):
        migrate(two.server)


# ----- failures -------------------------------------------------------------------------------------------------------


def test_a_target_that_cannot_prepare_ends_the_migration(two: Two) -> None:
    migrate(two.server)
    drain()
    [receive] = two.target.take()
    two.target.report(receive, "failed", error_code="host_failed", message="The host has no room.")
    two.goes_on_at_source("error")
    assert "no room" in InstanceFault.objects.get().message


@pytest.mark.parametrize("port", [0, 80, 70_000])
def test_a_port_that_is_not_plausible_ends_the_migration(two: Two, port: int) -> None:
    migrate(two.server)
    drain()
    [receive] = two.target.take()
    two.target.listens(receive, port)
    two.goes_on_at_source("error")


def test_a_failure_of_the_source_ends_the_migration(two: Two) -> None:
    _, send = two.sending()
    two.source.report(send, "failed", error_code="migration_failed", message="Lost.", power_state=PowerState.RUNNING)
    assert state_of(two.server) == AT_REST
    two.goes_on_at_source("error")


def test_a_failure_of_the_target_waits_for_the_source(two: Two) -> None:
    """The source knows whether its guest goes on."""
    receive, send = two.sending()
    two.target.report(receive, "failed", error_code="migration_failed", message="Lost.")
    assert state_of(two.server) == MIGRATING
    two.source.report(send, "failed", error_code="migration_failed", message="Lost.", power_state=PowerState.RUNNING)
    two.goes_on_at_source("error")


@pytest.mark.parametrize("first", ["source", "target"])
def test_an_undecided_guest_goes_on_when_the_target_has_not_started_it(two: Two, first: str) -> None:
    receive, send = two.sending()
    key = str(two.server.id)
    two.source.guests[key] = (two.source.guests[key][0], PowerState.PAUSED)
    reports = {
        "source": lambda: two.source.report(send, "failed", error_code=UNDECIDED, message="Lost."),
        "target": lambda: two.target.report(receive, "failed", error_code="migration_failed", message="Lost."),
    }
    for name in sorted(reports, key=lambda each: each != first):
        assert state_of(two.server) == MIGRATING
        reports[name]()
    drain()
    [keep] = two.source.take()
    assert isinstance(keep.body, KeepLiveRequest)
    assert state_of(two.server) == MIGRATING
    two.source.carry_out(keep)
    two.goes_on_at_source("error")
    assert two.source.guests[key][1] == PowerState.RUNNING


def test_an_undecided_guest_is_removed_when_it_runs_on_the_target(cloud: Cloud, two: Two) -> None:
    receive, send = two.sending()
    two.source.report(send, "failed", error_code=UNDECIDED, message="Lost.")
    assert state_of(two.server) == MIGRATING
    two.arrives(receive)
    cloud.run()
    assert cloud.fresh(two.server).host_name == two.target.host.name
    assert two.source.guests == {}
    invariants.check()


# ----- silence --------------------------------------------------------------------------------------------------------


def overdue(server: Instance) -> None:
    Instance.objects.filter(id=server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    drain()


def test_a_target_that_never_listens_ends_the_migration(two: Two) -> None:
    migrate(two.server)
    drain()
    overdue(two.server)
    two.goes_on_at_source("error")


def test_nothing_is_decided_without_the_host_that_may_have_the_guest(cloud: Cloud, two: Two) -> None:
    """Neither host reports: the target is not told to remove a guest that may run there."""
    receive, _ = two.sending()
    overdue(two.server)
    assert state_of(two.server) == MIGRATING
    assert not [command for command in two.target.take() if isinstance(command.body, DestroyRequest)]
    two.arrives(receive)
    cloud.run()
    assert cloud.fresh(two.server).host_name == two.target.host.name


def test_a_fenced_target_lets_the_source_go_on(cloud: Cloud, two: Two) -> None:
    _, send = two.sending()
    two.source.report(send, "failed", error_code=UNDECIDED, message="Lost.")
    overdue(two.server)
    assert not two.source.take()
    Host.objects.filter(id=two.target.host.id).update(forced_down=True)
    overdue(two.server)
    [keep] = two.source.take()
    assert isinstance(keep.body, KeepLiveRequest)
    two.source.carry_out(keep)
    assert state_of(two.server) == AT_REST
    assert cloud.fresh(two.server).host_name == two.source.host.name


def test_a_fenced_source_ends_the_migration_when_the_target_has_nothing(cloud: Cloud, two: Two) -> None:
    receive, _ = two.sending()
    Host.objects.filter(id=two.source.host.id).update(forced_down=True)
    overdue(two.server)
    assert state_of(two.server) == MIGRATING
    two.target.report(receive, "failed", error_code="migration_failed", message="Lost.")
    assert state_of(two.server) == AT_REST
    assert cloud.fresh(two.server).host_name == two.source.host.name


def test_a_deleted_server_leaves_both_hosts(cloud: Cloud, two: Two) -> None:
    two.sending()
    delete(operator(), two.server.id)
    cloud.run()
    assert (two.source.guests, two.target.guests) == ({}, {})
    assert not MoveAllocation.objects.exists()
    assert not Allocation.objects.exists()


def test_a_guest_that_arrives_after_the_delete_is_removed(cloud: Cloud, two: Two) -> None:
    receive, _ = two.sending()
    delete(operator(), two.server.id)
    two.arrives(receive)
    cloud.run()
    assert (two.source.guests, two.target.guests) == ({}, {})
    assert not Allocation.objects.exists()


# ----- control --------------------------------------------------------------------------------------------------------


def number() -> str:
    return str(Migration.objects.get().id)


def test_a_prepared_migration_is_aborted_without_a_call(two: Two) -> None:
    migrate(two.server)
    with pytest.raises(InvalidInputError):
        abort_live_migration(operator(), two.server.id, number(), early=False)
    abort_live_migration(operator(), two.server.id, number())
    two.goes_on_at_source("cancelled")
    assert not InstanceFault.objects.exists()


def test_the_source_is_asked_to_abort_and_to_complete(two: Two) -> None:
    two.sending()
    with mock.patch("provisioning.hosts.calls.call", return_value=MigrationControlled()) as call:
        abort_live_migration(operator(), two.server.id, number())
        force_live_migration(operator(), two.server.id, number())
    key = str(two.server.id)
    calls = [each.args[:2] for each in call.call_args_list]
    source = two.source.host.id
    assert calls == [
        (source, ControlMigrationCall(instance_id=key, action="abort")),
        (source, ControlMigrationCall(instance_id=key, action="complete")),
    ]


def test_a_migration_that_reaches_its_limit_is_cancelled_with_the_reason(two: Two) -> None:
    _, send = two.sending()
    two.source.report(send, "failed", error_code=TIME_LIMIT, message="60 seconds.", power_state=PowerState.RUNNING)
    two.goes_on_at_source("cancelled")
    assert InstanceFault.objects.get().message == "60 seconds."


def test_an_aborted_migration_is_cancelled(two: Two) -> None:
    _, send = two.sending()
    two.source.report(send, "failed", error_code="stopped", message="Aborted.", power_state=PowerState.RUNNING)
    two.goes_on_at_source("cancelled")


@pytest.mark.parametrize(("code", "error"), [("unsupported", ConflictError), ("failed", UnavailableError)])
def test_a_host_that_cannot_change_it_says_so(two: Two, code: str, error: type[Exception]) -> None:
    two.sending()
    answer = CallError(code=code, message="No.")
    with mock.patch("provisioning.hosts.calls.call", return_value=answer), pytest.raises(error):
        abort_live_migration(operator(), two.server.id, number())


def test_only_running_migrations_of_the_server_are_shown(cloud: Cloud, two: Two) -> None:
    two.sending()
    row = Migration.objects.get()
    assert live_migrations_for(operator(), two.server.id) == [row]
    assert live_migration_for(operator(), two.server.id, str(row.id)) == row
    with pytest.raises(NotFoundError):
        live_migrations_for(context("charlie"), two.server.id)
    with pytest.raises(NotFoundError):
        live_migration_for(operator(), two.server.id, "0")
    Migration.objects.update(status="completed")
    assert live_migrations_for(operator(), two.server.id) == []
    with pytest.raises(NotFoundError):
        live_migration_for(operator(), two.server.id, str(row.id))
