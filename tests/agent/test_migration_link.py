"""Connections of live migrations: only the announced host may send a guest, and only to the host it was told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.certificates import Certificate, tls_hostname
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import RetryableHostError, StoppedError
from compute_agent.virt.fake.migration import FakeArrival, FakeDeparture
from compute_agent.virt.fake.state import FakeGuest
from compute_agent.virt.live_migration import DISKS, MEMORY, Arrival, Departure, MigrationOptions
from compute_agent.virt.machine.certificates import HostCertificates
from compute_agent.virt.migration_link import receiving, sending
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.virt.migration_link.errors import MigrationFailedError
from compute_agent.virt.migration_link.frames import CONTROL, SILENT_AFTER, Frame, notice_silence, read, write
from compute_agent.virt.migration_link.receiving import Reception
from compute_agent.virt.migration_link.sending import Limits, Sending
from provisioning.hosts.authority import Authority, new_authority
from tests.agent.cast import MIGRATION_PORTS, make_spec
from tests.agent.watched_driver import WatchedDriver
from tests.support.one_machine import wait_for

SOURCE, TARGET, OTHER = (f"0c000000-0000-4000-8000-{number:012d}" for number in (1, 2, 3))


@pytest.fixture
def addresses(tmp_path: Path) -> dict[str, MigrationAddress]:
    """The addresses of three hosts of one cloud."""
    now, life = datetime.now(UTC), timedelta(days=1)
    certificate, key, _ = new_authority(now)
    authority, result = Authority(certificate, key), {}
    for host in (SOURCE, TARGET, OTHER):
        own = HostCertificates(tmp_path / host)
        request = own.request()
        server = authority.sign(request.server, host, server_name=tls_hostname(host), now=now, life=life)
        client = authority.sign(request.client, host, now=now, life=life)
        own.store(Certificate(host_id=host, server=server, client=client, ca=certificate))
        result[host] = MigrationAddress(lambda: "127.0.0.1", own, MIGRATION_PORTS)
    return result


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


def migrate(
    addresses: dict[str, MigrationAddress],
    source: WatchedDriver,
    spec: InstanceSpec,
    sender: str,
    name: str,
    reported: str = "",
) -> list[str]:
    """Send the guest as ``sender`` to the host with this name, at its ``reported`` address; return the guests of the
    target.
    """
    target = WatchedDriver()
    target.init_host()
    departure = source.departure(spec.uuid, MigrationOptions())
    send(addresses, departure, target.arrival(spec, 2), source, spec, sender, name, reported)
    return [guest.uuid for guest in target.guests()]


def send(
    addresses: dict[str, MigrationAddress],
    departure: Departure,
    arrival: Arrival,
    source: WatchedDriver,
    spec: InstanceSpec,
    sender: str = SOURCE,
    name: str = TARGET,
    reported: str = "",
    *,
    comes: Callable[[], None] = lambda: None,
    leaves: Callable[[], None] = lambda: None,
    flows: Callable[[], bytes] = bytes,
    adopt: Callable[[bytes], None] = lambda _: None,
) -> None:
    """Send the guest as ``sender`` to the host with this name, at its ``reported`` address. ``comes`` and ``leaves``
    switch its network; ``flows`` and ``adopt`` read and restore its connections.
    """
    reception = Reception(addresses[TARGET], arrival, SOURCE, comes, adopt)
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
        Sending(addresses[sender], departure, reported or address, port, tls_hostname(name), leaves, flows).send(
            lambda: False, Limits(), lambda action: source.control_migration(spec.uuid, action)
        )
    finally:
        ended.set()
        waiting.join()


def test_a_guest_is_sent_over_tls(
    addresses: dict[str, MigrationAddress], source: WatchedDriver, spec: InstanceSpec
) -> None:
    assert migrate(addresses, source, spec, SOURCE, TARGET) == [spec.uuid]
    assert source.power_state(spec.uuid) == PowerState.SHUTDOWN


def test_simulated_hosts_share_a_machine_whatever_their_addresses_are(
    source: WatchedDriver, spec: InstanceSpec
) -> None:
    own = MigrationAddress(lambda: "127.0.0.1", None, MIGRATION_PORTS)
    addresses = dict.fromkeys((SOURCE, TARGET), own)
    assert migrate(addresses, source, spec, SOURCE, TARGET, "192.0.2.2") == [spec.uuid]


@pytest.mark.parametrize(("sender", "name"), [(OTHER, TARGET), (SOURCE, OTHER)])
def test_another_host_is_refused(
    addresses: dict[str, MigrationAddress], source: WatchedDriver, spec: InstanceSpec, sender: str, name: str
) -> None:
    with pytest.raises(MigrationFailedError):
        migrate(addresses, source, spec, sender, name)
    assert source.power_state(spec.uuid) == PowerState.RUNNING


class Transferring(FakeDeparture):
    """A departure that transfers its last memory until the target has switched the network."""

    def __init__(self, driver: WatchedDriver, guest: FakeGuest) -> None:
        super().__init__(driver, guest)
        self.switched = threading.Event()

    def perform(self, prepared: bytes) -> bytes:
        cookie = super().perform(prepared)
        assert self.switched.wait(60)
        return cookie


def test_the_network_switches_while_the_guest_is_paused(
    addresses: dict[str, MigrationAddress], source: WatchedDriver, spec: InstanceSpec
) -> None:
    target = WatchedDriver()
    target.init_host()
    departure = Transferring(source, source._state.guests[spec.uuid])
    came: list[int] = []
    left: list[PowerState] = []

    def comes() -> None:
        came.append(len(target.guests()))
        departure.switched.set()

    def leaves() -> None:
        left.append(target.power_state(spec.uuid))

    send(addresses, departure, target.arrival(spec, 2), source, spec, comes=comes, leaves=leaves)
    assert came == [0, 1], "first while the guest is transferred, and again when it runs"
    assert left == [PowerState.RUNNING], "the source gives its traffic up when it runs on the target"


@pytest.mark.parametrize("departing", [FakeDeparture, Transferring])
def test_the_tracked_connections_of_a_paused_guest_are_sent(
    addresses: dict[str, MigrationAddress], source: WatchedDriver, spec: InstanceSpec, departing: type[FakeDeparture]
) -> None:
    target = WatchedDriver()
    target.init_host()
    departure = departing(source, source._state.guests[spec.uuid])
    if isinstance(departure, Transferring):
        departure.switched.set()
    states: list[PowerState] = []
    adopted: list[bytes] = []

    def flows() -> bytes:
        states.append(source.power_state(spec.uuid))
        return b"flows"

    send(addresses, departure, target.arrival(spec, 2), source, spec, flows=flows, adopt=adopted.append)
    assert adopted == [b"flows"]
    assert states == [PowerState.PAUSED]


def test_a_network_that_fails_does_not_end_the_migration(
    addresses: dict[str, MigrationAddress], source: WatchedDriver, spec: InstanceSpec
) -> None:
    def fails() -> None:
        raise RetryableHostError("The host could not set its filters.")

    def unreadable() -> bytes:
        raise RetryableHostError("The host could not read connections of guests.")

    def not_adopted(_: bytes) -> None:
        fails()

    target = WatchedDriver()
    target.init_host()
    departure = source.departure(spec.uuid, MigrationOptions())
    send(
        addresses, departure, target.arrival(spec, 2), source, spec,
        comes=fails, leaves=fails, flows=unreadable, adopt=not_adopted,
    )  # fmt: skip
    assert target.power_state(spec.uuid) == PowerState.RUNNING
    assert source.power_state(spec.uuid) == PowerState.SHUTDOWN


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path fits into the address of a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="nv-") as folder:
        yield Path(folder)


class Streaming(FakeDeparture):
    """A departure whose hypervisor sends memory until its connection ends."""

    def __init__(self, driver: WatchedDriver, guest: FakeGuest, folder: Path) -> None:
        super().__init__(driver, guest)
        self._folder = folder
        self.sent = threading.Event()
        self.end_memory: Callable[[], bool] = lambda: False

    @property
    def sockets(self) -> Mapping[str, Path]:
        return {MEMORY: self._folder / "send.sock", DISKS: self._folder / "disks.sock"}

    def sockets_ready(self, end_memory: Callable[[], bool]) -> None:
        self.end_memory = end_memory

    def perform(self, prepared: bytes) -> bytes:
        assert self.end_memory() is False, "there is no connection yet"
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self.sockets[MEMORY]))
            link.settimeout(60)
            link.sendall(b"memory")
            self.sent.set()
            with contextlib.suppress(ConnectionResetError):
                assert link.recv(1) == b"", "the stream has ended"
        raise StoppedError("The migration was aborted.")


class Listening(FakeArrival):
    """An arrival whose hypervisor listens for memory."""

    def __init__(self, driver: WatchedDriver, spec: InstanceSpec, attempt: int, folder: Path) -> None:
        super().__init__(driver, spec, attempt)
        self.path = folder / "receive.sock"

    @property
    def sockets(self) -> Mapping[str, Path]:
        return {MEMORY: self.path}


def test_the_end_of_the_stream_of_memory_ends_the_transfer(
    addresses: dict[str, MigrationAddress], source: WatchedDriver, spec: InstanceSpec, short: Path
) -> None:
    """It is how an abort ends QEMU's transfer: QEMU's own cancellation may end the guest."""
    target = WatchedDriver()
    target.init_host()
    arrival = Listening(target, spec, 2, short)
    departure = Streaming(source, source._state.guests[spec.uuid], short)
    received: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as hypervisor:
        hypervisor.bind(str(arrival.path))
        hypervisor.listen()
        hypervisor.settimeout(0.2)
        ended = threading.Event()

        def take() -> None:
            while not ended.is_set():  # the stream may end before the other host is connected with it
                try:
                    link, _ = hypervisor.accept()
                except TimeoutError:
                    continue
                with link:
                    while piece := link.recv(100):
                        received.append(piece)

        def abort() -> None:
            assert departure.sent.wait(60)
            wait_for("the connection is accepted", departure.end_memory)

        threads = [threading.Thread(target=work) for work in (take, abort)]
        for thread in threads:
            thread.start()
        with pytest.raises(StoppedError):
            send(addresses, departure, arrival, source, spec)
        ended.set()
        for thread in threads:
            thread.join()
    assert b"".join(received) in (b"", b"memory")
    assert source.power_state(spec.uuid) == PowerState.RUNNING


def test_both_hosts_notice_that_the_other_one_is_silent(
    addresses: dict[str, MigrationAddress],
    source: WatchedDriver,
    spec: InstanceSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[int] = []

    def noticed(writer: asyncio.StreamWriter) -> None:
        notice_silence(writer)
        link = writer.get_extra_info("socket")
        limits.append(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    monkeypatch.setattr(sending, "notice_silence", noticed)
    monkeypatch.setattr(receiving, "notice_silence", noticed)
    assert migrate(addresses, source, spec, SOURCE, TARGET) == [spec.uuid]
    assert limits == [SILENT_AFTER * 1000] * 2


def test_a_transfer_to_a_host_that_is_lost_is_aborted(source: WatchedDriver, spec: InstanceSpec, short: Path) -> None:
    """The stream of memory would wait for that host."""
    departure = Streaming(source, source._state.guests[spec.uuid], short)
    own = MigrationAddress(lambda: "127.0.0.1", None, MIGRATION_PORTS)
    listening, address, port = own.listen()

    async def be_lost(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the transfer has begun, then lose the control connection only."""
        if (await read(reader)).kind != CONTROL:
            await reader.read()
            writer.close()
            return
        for kind in ("offer", "begin"):
            await read(reader)
            await write(writer, Frame(kind))
        await read(reader)  # progress: the transfer has begun
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def serve() -> None:
        server = await asyncio.start_server(be_lost, sock=listening)
        async with server:
            await asyncio.to_thread(ended.wait, 60)
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        await asyncio.sleep(0)

    def control(action: str) -> None:
        asked.append(action)
        departure.end_memory()

    asked: list[str] = []
    ended = threading.Event()
    waiting = threading.Thread(target=lambda: asyncio.run(serve()))
    waiting.start()
    try:
        with pytest.raises(MigrationFailedError, match="lost"):
            Sending(own, departure, address, port, "", lambda: None).send(lambda: False, Limits(), control)
    finally:
        ended.set()
        waiting.join()
    assert set(asked) == {"abort"}
    assert source.power_state(spec.uuid) == PowerState.RUNNING
