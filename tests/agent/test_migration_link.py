"""Connections of live migrations: only the announced host may send a guest, and only to the host it was told."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.certificates import Certificate, tls_hostname
from compute_agent.contract.power import PowerState
from compute_agent.virt.certificates import HostCertificates
from compute_agent.virt.live_migration import MigrationOptions
from compute_agent.virt.migration_link import Limits, MigrationFailedError, Place, Reception, Sending
from provisioning.hosts.authority import Authority, new_authority
from tests.agent.cast import MIGRATION_PORTS, make_spec
from tests.agent.watched_driver import WatchedDriver

SOURCE, TARGET, OTHER = (f"0c000000-0000-4000-8000-{number:012d}" for number in (1, 2, 3))


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Place]:
    """The places of three hosts of one cloud."""
    now, life = datetime.now(UTC), timedelta(days=1)
    certificate, key, _ = new_authority(now)
    authority, found = Authority(certificate, key), {}
    for host in (SOURCE, TARGET, OTHER):
        own = HostCertificates(tmp_path / host)
        asked = own.request()
        server = authority.sign(asked.server, host, server_name=tls_hostname(host), now=now, life=life)
        client = authority.sign(asked.client, host, now=now, life=life)
        own.take(Certificate(host_id=host, server=server, client=client, ca=certificate))
        found[host] = Place(lambda: "127.0.0.1", own, MIGRATION_PORTS)
    return found


@pytest.fixture
def spec() -> InstanceSpec:
    return make_spec()


@pytest.fixture
def source(spec: InstanceSpec) -> WatchedDriver:
    driver = WatchedDriver()
    driver.init_host()
    driver.create_disk(spec, None)
    driver.define(spec, 1)
    driver.start(spec.uuid)
    return driver


def migrate(places: dict[str, Place], source: WatchedDriver, spec: InstanceSpec, sender: str, name: str) -> list[str]:
    """Send the guest as ``sender`` to the host with this name; return the guests of the target."""
    target = WatchedDriver()
    target.init_host()
    reception = Reception(places[TARGET], target.arrival(spec, 2), SOURCE)
    address, port = reception.listen()
    ended = threading.Event()

    def receive() -> None:
        try:
            reception.receive(ended.is_set)
        except Exception:  # noqa: BLE001 (the other side's error is what the test looks at)
            ended.set()

    waiting = threading.Thread(target=receive)
    waiting.start()
    try:
        departure = source.departure(spec.uuid, MigrationOptions())
        Sending(places[sender], departure, address, port, tls_hostname(name)).send(
            lambda: False, Limits(), lambda action: source.control_migration(spec.uuid, action)
        )
    finally:
        ended.set()
        waiting.join()
    return [guest.uuid for guest in target.guests()]


def test_a_guest_is_sent_over_tls(places: dict[str, Place], source: WatchedDriver, spec: InstanceSpec) -> None:
    assert migrate(places, source, spec, SOURCE, TARGET) == [spec.uuid]
    assert source.power_state(spec.uuid) == PowerState.SHUTDOWN


@pytest.mark.parametrize(("sender", "name"), [(OTHER, TARGET), (SOURCE, OTHER)])
def test_another_host_is_refused(
    places: dict[str, Place], source: WatchedDriver, spec: InstanceSpec, sender: str, name: str
) -> None:
    with pytest.raises(MigrationFailedError):
        migrate(places, source, spec, sender, name)
    assert source.power_state(spec.uuid) == PowerState.RUNNING
