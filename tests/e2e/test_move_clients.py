"""Moves of servers with the unmodified ``openstack`` command line and SDK, between simulated hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openstack.compute.v2.server import Server

from tests.e2e.sdk_proxies import connect
from tests.support.command_line import batch, refused
from tests.support.one_machine import OneMachine, running, wait_for

pytestmark = [
    pytest.mark.deep,
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
NEW = "server create --image novella-guest --flavor m1.nano --network demo-net --wait mover"
FOREVER = "3600"
"""Seconds of a move that ends only because the client ends it."""


@pytest.fixture(scope="module")
def lasting() -> Iterator[OneMachine]:
    """A cloud whose simulated hosts do not complete a live migration by themselves."""
    with running(simulate=2, settings={"NOVELLA_AGENT_FAKE_MOVE_SECONDS": FOREVER}) as cloud:
        yield cloud


class Mover:
    """A server, as the SDK shows it to the operator."""

    def __init__(self, cloud: OneMachine) -> None:
        batch(cloud, NEW)
        self._compute = connect(cloud).compute
        self._cloud = cloud
        self.id = str(self._compute.find_server("mover", ignore_missing=False).id)

    def now(self) -> Server:
        return self._compute.get_server(self.id)

    @property
    def host(self) -> str:
        return str(self.now().compute_host)

    def other(self) -> str:
        """A host that can receive it: the server is not there."""
        hosts = [host.name for host in self._compute.hypervisors() if host.state == "up"]
        return str(next(name for name in sorted(hosts) if name != self.host))

    def becomes(self, status: str) -> None:
        def there() -> bool:
            result = self.now()
            return bool(result.status == status and not result.task_state)

        wait_for(f"it becomes {status}", there)

    def do(self, command: str, status: str = "ACTIVE") -> None:
        batch(self._cloud, f"{command} {self.id}")
        self.becomes(status)

    def moves(self) -> list[tuple[str, str]]:
        """Types and statuses of its migrations, the oldest first."""
        [rows] = batch(self._cloud, f"server migration list --server {self.id}")
        return [(row["Type"], row["Status"]) for row in reversed(rows)]

    def delete(self) -> None:
        self._compute.delete_server(self.id, force=True)
        wait_for("it is gone", lambda: self._compute.find_server(self.id, all_projects=True) is None)


@pytest.fixture
def mover(restoring: OneMachine) -> Iterator[Mover]:
    server = Mover(restoring)
    yield server
    server.delete()


def test_cold_migrations_are_confirmed_and_reverted(mover: Mover) -> None:
    first, target = mover.host, mover.other()
    mover.do(f"server migrate --host {target}", "VERIFY_RESIZE")
    assert mover.host == target
    mover.do("server migration revert")
    assert mover.host == first
    mover.do("server migrate", "VERIFY_RESIZE")
    assert mover.host != first
    mover.do("server migration confirm")
    assert mover.moves() == [("migration", "reverted"), ("migration", "confirmed")]


def test_live_migrations(mover: Mover) -> None:
    target = mover.other()
    mover.do(f"server migrate --live-migration --block-migration --host {target}")
    wait_for("it is on the other host", lambda: mover.host == target)
    mover.do("server migrate --live-migration")
    wait_for("it has left that host", lambda: mover.host != target)
    assert mover.moves() == [("live-migration", "completed")] * 2


def test_evacuations(mover: Mover, restoring: OneMachine) -> None:
    source, target = mover.host, mover.other()
    assert "still in use" in refused(restoring, f"server evacuate {mover.id}")
    try:
        batch(restoring, f"compute service set --down {source} nova-compute")
        batch(restoring, f"server evacuate --host {target} {mover.id}")
        wait_for("it is on the other host", lambda: mover.host == target and not mover.now().task_state)
    finally:
        batch(restoring, f"compute service set --up {source} nova-compute")
    mover.becomes("SHUTOFF")  # since 2.95
    wait_for("the old host has no guest", lambda: mover.moves() == [("evacuation", "completed")])


def test_a_live_migration_is_aborted_and_another_one_completed(lasting: OneMachine) -> None:
    mover = Mover(lasting)
    first = mover.host
    for word, ends in (("abort", "cancelled"), ("force complete", "completed")):
        batch(lasting, f"server migrate --live-migration {mover.id}")
        wait_for("it is being copied", lambda: mover.moves()[-1] == ("live-migration", "running"))
        [listed] = batch(lasting, f"server migration list --server {mover.id} --status running")
        [row] = listed
        # "server migration show" of the client exchanges both ids in its request.
        shown = connect(lasting).compute.get_server_migration(row["Id"], mover.id)
        assert (shown.status, shown.source_compute) == ("running", mover.host)
        batch(lasting, f"server migration {word} {mover.id} {row['Id']}")
        mover.becomes("ACTIVE")
        wait_for(f"it is {ends}", lambda ends=ends: mover.moves()[-1] == ("live-migration", ends))
        assert (mover.host == first) is (ends == "cancelled")
    mover.delete()
