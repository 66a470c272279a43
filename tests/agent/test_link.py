"""The link: enrolment, coming back, and what travels over it, against a portal that speaks the contract."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from compute_agent.contract.calls import Call, ConsoleOutputCall, Diagnostics, DiagnosticsCall
from compute_agent.contract.messages import (
    CallReply,
    CommandAck,
    CredentialStored,
    CredentialTaken,
    Enrol,
    Events,
    EventsAck,
    Heartbeat,
    Hello,
    NewCredential,
    Refused,
    RenewCredential,
    ResourceAudit,
)
from compute_agent.contract.samples import Samples
from compute_agent.link import credential, portal_link
from compute_agent.link.credential import Credential, load_or_make, store
from compute_agent.link.dial import here
from compute_agent.link.errors import StartError
from compute_agent.link.portal_link import PortalLink
from compute_agent.settings import AgentSettings
from tests.agent.cast import PATIENCE, Gate, Stage, build, destroy, make_spec, make_stage
from tests.agent.small_portal import SmallPortal, small_portal
from tests.agent.watched_driver import WatchedDriver


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"PAUSE": 0.01, "PAUSE_MAX_NEAR": 0.05, "PAUSE_FINAL": 0.1}.items():
        monkeypatch.setattr(portal_link, name, seconds)
    monkeypatch.setattr("compute_agent.link.session.AUDIT_PAUSE", 0.02)


async def test_the_host_sends_what_tells_its_machine_from_others(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    async with small_portal(tokens={"kelvin": "once"}) as portal:
        settings = AgentSettings("kelvin", tmp_path, portal.url, join_token="once", machine_id="m1")
        async with linked(stage, settings):
            await portal.connected()
            assert portal.heard(Enrol)[0].machine == "m1"


async def test_a_host_renews_its_credential_when_it_is_asked_to(tmp_path: Path) -> None:
    """Stored before it is sent, and used only when the portal has it: an answer that is lost changes nothing."""
    stage = make_stage(tmp_path)
    async with small_portal(tokens={"kelvin": "once"}) as portal:
        settings = AgentSettings("kelvin", tmp_path, portal.url, join_token="once")
        async with linked(stage, settings):
            await portal.connected()
            old = load_or_make(tmp_path, "kelvin").secret
            for _ in range(2):
                await portal.say(RenewCredential())
            await portal.until(lambda: len(portal.heard(NewCredential)) == 2)
            first, second = portal.heard(NewCredential)
            kept = load_or_make(tmp_path, "kelvin")
            assert (kept.secret, kept.next) == (old, first.credential)
            assert first.credential == second.credential != old
            await portal.say(CredentialTaken())
            await portal.until(lambda: portal.heard(CredentialStored))
            assert load_or_make(tmp_path, "kelvin").secret == first.credential


def test_a_machines_number_is_its_own_and_no_secret_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SYSTEM", "FIRMWARE", "MADE"):
        monkeypatch.setattr(credential, name, tmp_path / name)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    made = credential.machine_id()
    assert made == credential.machine_id(), "created once where the system has none"
    (tmp_path / "SYSTEM").write_text("a" * 32 + "\n")
    installed = credential.machine_id()
    (tmp_path / "FIRMWARE").write_text("4C4C4544-0051\n")
    clone = credential.machine_id()
    assert len({made, installed, clone}) == 3
    assert "a" * 32 not in installed


@contextlib.asynccontextmanager
async def linked(stage: Stage, settings: AgentSettings) -> AsyncIterator[None]:
    """A started host with its link."""
    await stage.host.start()
    link = asyncio.ensure_future(PortalLink(settings, stage.host, stage.threads, here).run())
    try:
        yield
    finally:
        link.cancel()
        await asyncio.wait((link,))
        await stage.host.stop(2.0)
        stage.threads.close()


def settings_of(tmp_path: Path, portal: SmallPortal, token: str | None) -> AgentSettings:
    return AgentSettings(host="host-1", state_dir=tmp_path, portal_url=portal.url, driver="fake", join_token=token)


def enrolled(tmp_path: Path, portal: SmallPortal) -> AgentSettings:
    """The settings of a host that the portal knows already."""
    store(tmp_path, Credential("host-1", "secret-1", enrolled=True))
    portal.credentials["host-1"] = "secret-1"
    return settings_of(tmp_path, portal, None)


# ----- enrolment ------------------------------------------------------------------------------------------------------


async def test_a_new_host_enrols_once_and_says_hello_after(tmp_path: Path) -> None:
    async with small_portal(tokens={"host-1": "join-1"}) as portal:
        settings = settings_of(tmp_path, portal, "join-1")
        async with linked(make_stage(tmp_path), settings):
            await portal.connected()
        async with linked(make_stage(tmp_path), settings_of(tmp_path, portal, None)):
            await portal.connected(2)
        (enrol,) = portal.heard(Enrol)
        assert (enrol.host, enrol.join_token, len(enrol.credential) >= 40) == ("host-1", "join-1", True)
        assert portal.handshakes == [(None, None), (f"Bearer {enrol.credential}", "host-1")]
        assert portal.heard(Hello)[0].host == "host-1"


async def test_the_credential_is_stored_before_it_is_sent(tmp_path: Path) -> None:
    async with small_portal() as portal:
        PortalLink(
            settings_of(tmp_path, portal, "join-1"), make_stage(tmp_path).host, make_stage(tmp_path).threads, here
        )
    kept = tmp_path / "credential.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text())["enrolled"] is False
    assert load_or_make(tmp_path, "host-1").secret == json.loads(kept.read_text())["secret"]


async def test_an_enrolment_whose_answer_was_lost_ends_in_hello(tmp_path: Path) -> None:
    async with small_portal(tokens={"host-1": "join-1"}, forget_answer=True) as portal:
        async with linked(make_stage(tmp_path), settings_of(tmp_path, portal, "join-1")):
            await portal.connected()
        assert portal.heard(Hello)
        assert load_or_make(tmp_path, "host-1").enrolled


async def test_a_portal_set_up_anew_takes_a_known_host_with_a_new_token(tmp_path: Path) -> None:
    store(tmp_path, Credential("host-1", "secret-of-before", enrolled=True))
    async with small_portal(tokens={"host-1": "join-1"}) as portal:
        async with linked(make_stage(tmp_path), settings_of(tmp_path, portal, "join-1")):
            await portal.connected()
        assert portal.credentials == {"host-1": "secret-of-before"}


async def test_a_refused_host_says_why_and_goes_on_trying(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with small_portal() as portal, linked(make_stage(tmp_path), settings_of(tmp_path, portal, "join-used")):
        await portal.until(lambda: len(portal.heard(Enrol)) >= 3)
        portal.tokens["host-1"] = "join-used"
        await portal.connected()
    assert "This join token is unknown or already used." in caplog.text
    secret = load_or_make(tmp_path, "host-1").secret
    assert "join-used" not in caplog.text
    assert secret not in caplog.text


async def test_a_new_host_without_a_token_cannot_start(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    settings = AgentSettings(host="host-1", state_dir=tmp_path, driver="fake")
    with pytest.raises(StartError, match="has no join token"):
        PortalLink(settings, stage.host, stage.threads, here)


@pytest.mark.parametrize("content", ["join-1\n", '{"host-1": "join-1", "host-2": "join-2"}'])
async def test_the_token_may_come_from_a_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    async with small_portal(tokens={"host-1": "join-1"}) as portal:
        settings = AgentSettings(
            host="host-1", state_dir=tmp_path, portal_url=portal.url, join_token_file=tmp_path / "token"
        )
        async with linked(make_stage(tmp_path), settings):
            await portal.connected()


def test_a_credential_of_another_host_is_refused(tmp_path: Path) -> None:
    load_or_make(tmp_path, "host-1")
    with pytest.raises(StartError, match="belongs to the host 'host-1'"):
        load_or_make(tmp_path, "host-2")


# ----- what travels ---------------------------------------------------------------------------------------------------


async def test_a_command_is_acknowledged_and_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_agent.engine.outbox.STEP_LINGER", 600.0)  # steps wait for the end of the command
    async with small_portal() as portal, linked(make_stage(tmp_path), enrolled(tmp_path, portal)):
        await portal.connected()
        command = build(make_spec())
        await portal.say(command)
        await portal.say(command)
        await portal.until(lambda: len(portal.acked()) == 2)
        await portal.until(lambda: "finished" in {event.kind for event in portal.events()})
        assert portal.acked() == [command.id, command.id]
        assert [event.kind for event in portal.events()] == ["step"] * 8 + ["finished"]
        assert len(portal.heard(Events)) == 1  # steps that end together travel together


async def test_the_host_is_measured_at_connect_and_after_commands(tmp_path: Path) -> None:
    async with small_portal() as portal, linked(make_stage(tmp_path), enrolled(tmp_path, portal)):
        await portal.until(lambda: portal.heard(ResourceAudit))
        first = portal.heard(ResourceAudit)[0]
        assert (first.vcpus, first.running_vms, first.host_ip) == (32, 0, "127.0.0.1")
        spec = make_spec()
        await portal.connected()
        await portal.say(build(spec))
        await portal.until(lambda: len(portal.heard(ResourceAudit)) == 2)
        second = portal.heard(ResourceAudit)[1]
        assert (second.running_vms, second.cached_images) == (1, [spec.image.id])
        assert [(guest.instance_id, guest.attempt) for guest in second.guests] == [(spec.uuid, 1)]


async def test_hello_lists_the_guests(tmp_path: Path) -> None:
    async with small_portal() as portal:
        settings = enrolled(tmp_path, portal)
        spec = make_spec()
        async with linked(make_stage(tmp_path), settings):
            await portal.connected()
            await portal.say(build(spec, attempt=3))
            await portal.until(lambda: "finished" in {event.kind for event in portal.events()})
        async with linked(make_stage(tmp_path), settings):
            await portal.connected(2)
        guests = portal.heard(Hello)[1].guests
        assert [(guest.instance_id, guest.attempt, guest.power_state) for guest in guests] == [(spec.uuid, 3, 1)]


async def test_events_not_recorded_are_sent_again_on_the_next_connection(tmp_path: Path) -> None:
    async with small_portal(acknowledge=False) as portal, linked(make_stage(tmp_path), enrolled(tmp_path, portal)):
        first = await portal.connected()
        await portal.say(build(make_spec()))
        await portal.until(lambda: "finished" in {event.kind for event in portal.events()})
        events = portal.events()
        await portal.say(EventsAck(seq=events[3].seq))
        await first.close()
        await portal.connected(2)
        await portal.until(lambda: len(portal.events()) == len(events) + len(events) - 4)
        assert portal.events()[len(events) :] == events[4:]


async def test_a_portal_that_was_away_is_found_again_and_sent_everything(tmp_path: Path) -> None:
    gate = Gate("create_disk")
    async with small_portal() as portal:
        settings = enrolled(tmp_path, portal)
        stage = make_stage(tmp_path, after_step=gate)
        async with linked(stage, settings):
            await portal.connected()
            command = build(make_spec())
            await portal.say(command)
            await gate.until_reached()
            await portal.go_down()
            gate.open.set()
            await asyncio.wait_for(stage.host.idle(), 60)
            await portal.listen()
            await portal.connected(2)
            await portal.until(lambda: "finished" in {event.kind for event in portal.events()})
            done = {event.step for event in portal.events() if event.kind == "step"}
            assert len(done) == 8


class Cable:
    """Connections to a port. After a cut, the data of those that there are is dropped silently, in both directions."""

    def __init__(self, port: int) -> None:
        self._port, self._joined, self._cut = port, 0, 0

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._joined += 1
        there, away = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._carry(reader, away, self._joined), self._carry(there, writer, self._joined))

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, number: int) -> None:
        while data := await source.read(1 << 16):
            if number > self._cut:
                target.write(data)
        target.close()

    def cut(self) -> None:
        self._cut = self._joined


async def test_a_link_whose_data_is_dropped_silently_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PING_EVERY", "PONG_WITHIN", "CLOSED_WITHIN"):
        monkeypatch.setattr(portal_link, name, 0.2)
    async with small_portal() as portal:
        cable = Cable(portal.port)
        server = await asyncio.start_server(cable.join, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, linked(make_stage(tmp_path), replace(enrolled(tmp_path, portal), portal_url=address)):
            await portal.connected()
            cable.cut()
            lost = build(make_spec())
            await portal.say(lost)
            await portal.connected(2)
            await portal.say(lost)  # as the portal does for a command without an acknowledgement
            await portal.until(lambda: "finished" in {event.kind for event in portal.events()})
            assert portal.acked() == [lost.id]


async def test_the_heart_beats_while_everything_else_is_stuck(tmp_path: Path) -> None:
    driver = WatchedDriver(tmp_path, fail_at="plug_network", kind="hang")
    stage = make_stage(tmp_path, driver=driver)
    async with small_portal(heartbeat=0.02) as portal, linked(stage, enrolled(tmp_path, portal)):
        await portal.connected()
        for number in range(1, 11):
            await portal.say(build(make_spec(number=number)))
            await portal.say(Call(id=str(number), body=ConsoleOutputCall(instance_id="x")))
        beats = len(portal.heard(Heartbeat))
        await portal.until(lambda: len(portal.heard(Heartbeat)) >= beats + 10)


async def test_samples_are_sent_while_the_portal_wants_them(tmp_path: Path) -> None:
    async with small_portal(samples=0.02) as portal, linked(make_stage(tmp_path), enrolled(tmp_path, portal)):
        await portal.connected()
        await portal.say(build(make_spec()))
        await portal.until(lambda: any(each.guests for each in portal.heard(Samples)))


async def test_a_portal_that_does_not_know_samples_gets_none(tmp_path: Path) -> None:
    async with small_portal(heartbeat=0.02) as portal, linked(make_stage(tmp_path), enrolled(tmp_path, portal)):
        await portal.until(lambda: len(portal.heard(Heartbeat)) >= 10)
        assert not portal.heard(Samples)


async def test_calls_are_answered_beside_commands(tmp_path: Path) -> None:
    gate = Gate("fetch_image")
    async with small_portal() as portal, linked(make_stage(tmp_path, after_step=gate), enrolled(tmp_path, portal)):
        await portal.connected()
        await portal.say(build(make_spec(number=2)))
        await gate.until_reached()
        await portal.say(Call(id="c1", body=DiagnosticsCall(instance_id="nobody")))
        await portal.until(lambda: portal.heard(CallReply))
        (reply,) = portal.heard(CallReply)
        assert reply.id == "c1"
        assert not isinstance(reply.result, Diagnostics)
        gate.open.set()


async def test_a_frame_of_a_newer_portal_is_passed_over(tmp_path: Path) -> None:
    async with small_portal() as portal, linked(make_stage(tmp_path), enrolled(tmp_path, portal)):
        connection = await portal.connected()
        await connection.send('{"type": "migrate_request", "id": "1"}')
        await portal.say(destroy(make_spec().uuid))
        await portal.until(lambda: portal.heard(CommandAck))
        assert len(portal.links) == 1


async def test_a_host_shown_the_door_comes_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with small_portal() as portal, linked(make_stage(tmp_path), enrolled(tmp_path, portal)):
        await portal.connected()
        await portal.say(Refused(reason="Another agent of this host has connected."))
        await portal.connected(2)
    assert "Another agent of this host has connected." in caplog.text


async def test_trouble_is_logged_once_while_it_lasts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(tmp_path, Credential("host-1", "secret-1", enrolled=True))
    settings = AgentSettings(host="host-1", state_dir=tmp_path, portal_url="http://127.0.0.1:9", driver="fake")
    tries, enough = itertools.count(1), asyncio.Event()
    connect_once = PortalLink._connect_once

    async def connect(link: PortalLink) -> None:
        if next(tries) == 4:
            enough.set()
        await connect_once(link)

    monkeypatch.setattr(PortalLink, "_connect_once", connect)
    with caplog.at_level(logging.WARNING):
        async with linked(make_stage(tmp_path), settings):
            await asyncio.wait_for(enough.wait(), PATIENCE)
    assert caplog.text.count("not connected to http://127.0.0.1:9") == 1
