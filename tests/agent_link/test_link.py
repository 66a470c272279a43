"""The agents' link: who gets in, what is delivered and how often, and what a host's reports do."""

from __future__ import annotations

import asyncio
import gc
import time
import uuid
import weakref
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.calls import Call, ConsoleOutput, ConsoleOutputCall
from compute_agent.contract.certificates import Certificate, RenewCertificate, digest_of
from compute_agent.contract.commands import DestroyRequest, PowerRequest
from compute_agent.contract.messages import (
    CONTRACT_VERSION,
    SERVER,
    AgentEvent,
    CallReply,
    Command,
    CommandAck,
    CredentialStored,
    CredentialTaken,
    Enrol,
    Events,
    EventsAck,
    Heartbeat,
    Hello,
    Message,
    NewCredential,
    Ownership,
    Refused,
    RenewCredential,
    ResourceAudit,
    Welcome,
    decode_to_agent,
    encode,
)
from compute_agent.contract.samples import HOST_SERIES, Samples
from compute_agent.virt.machine.certificates import HostCertificates
from portal.agents import link
from provisioning.common.errors import NotAuthenticatedError, UnavailableError
from provisioning.compute.records import host_commands
from provisioning.doctor.checks.hosts import second_machines
from provisioning.events.services import record
from provisioning.hosts import calls, certificates, commands, credentials, enrolment, versions
from provisioning.hosts.models import Host, HostCall, HostCommand, RefusedAgent
from provisioning.measures.models import Report
from tests.support.sockets import WITHIN, Open, Socket, in_db

CREDENTIAL = "c" * 43
PATH = "/ws/agent"


async def eventually(check: Any) -> None:
    """Wait until a look into the database is true."""
    async with asyncio.timeout(WITHIN):
        while not await in_db(check)():
            await asyncio.sleep(0.01)


async def tell(socket: Socket, message: Message) -> None:
    await socket.send_to(encode(message).decode())


async def hear(socket: Socket) -> Any:
    return decode_to_agent(await socket.receive_from(WITHIN))


async def enrol(open_socket: Open, name: str = "h1") -> Host:
    token = await in_db(enrolment.create_join_token)(name)
    socket = await open_socket(PATH)
    await tell(socket, Enrol(join_token=token, host=name, credential=CREDENTIAL + name))
    welcome = await hear(socket)
    assert isinstance(welcome, Welcome)
    assert isinstance(await hear(socket), Ownership)
    await socket.disconnect()
    return await in_db(Host.objects.get)(id=welcome.host_id)


async def connect(open_socket: Open, host: Host) -> Socket:
    credential = CREDENTIAL + host.name
    socket = await open_socket(PATH, authorization=f"Bearer {credential}", x_novella_host=host.name)
    await tell(socket, Hello(host=host.name))
    welcome = await hear(socket)
    assert isinstance(welcome, Welcome), welcome
    assert welcome.host_id == str(host.id)
    assert isinstance(await hear(socket), Ownership)  # behind the welcome, before any order
    return socket


def order(host: Host, instance_id: uuid.UUID | None = None) -> HostCommand:
    with transaction.atomic():
        return host_commands.send(host.id, instance_id or uuid.uuid4(), 1, DestroyRequest(), None)


# ----- letting in -----------------------------------------------------------------------------------------------------


def order_within(host: Host, seconds: int) -> HostCommand:
    deadline = timezone.now() + timedelta(seconds=seconds)
    return host_commands.send(host.id, uuid.uuid4(), 1, PowerRequest(action="stop"), deadline)


async def test_a_new_host_enrols_once_and_comes_back_with_its_credential(open_socket: Open) -> None:
    host = await enrol(open_socket)
    assert host.contract_version == CONTRACT_VERSION
    socket = await connect(open_socket, host)
    assert (await in_db(Host.objects.get)(id=host.id)).connected
    await socket.disconnect()
    await eventually(lambda: not Host.objects.get(id=host.id).connected)


async def test_a_used_or_unknown_join_token_is_refused_for_good(open_socket: Open) -> None:
    socket = await open_socket(PATH)
    await tell(socket, Enrol(join_token="nothing", host="h1", credential=CREDENTIAL))
    refused = await hear(socket)
    assert isinstance(refused, Refused)
    assert refused.final
    assert await socket.closed() == link.REFUSED
    assert not await in_db(Host.objects.exists)()


@pytest.mark.parametrize(
    ("authorization", "name"),
    [("Bearer wrong", "h1"), (f"Bearer {CREDENTIAL}h1", "h2"), ("", "h1"), (f"Basic {CREDENTIAL}h1", "h1")],
)
async def test_a_wrong_credential_is_refused(open_socket: Open, authorization: str, name: str) -> None:
    await enrol(open_socket)
    socket = await open_socket(PATH, authorization=authorization, x_novella_host=name)
    await tell(socket, Hello(host=name))
    assert isinstance(await hear(socket), Refused)
    assert await socket.closed() == link.REFUSED


async def test_a_host_cannot_speak_for_another(open_socket: Open) -> None:
    await enrol(open_socket, "h1")
    await enrol(open_socket, "h2")
    socket = await open_socket(PATH, authorization=f"Bearer {CREDENTIAL}h1", x_novella_host="h1")
    await tell(socket, Hello(host="h2"))
    assert isinstance(await hear(socket), Refused)


async def test_a_refusal_is_recorded_until_the_host_is_admitted(open_socket: Open) -> None:
    socket = await open_socket(PATH)
    await tell(socket, Enrol(join_token="nothing", host="h1", credential=CREDENTIAL))
    assert isinstance(await hear(socket), Refused)
    row = await in_db(RefusedAgent.objects.get)()
    assert (row.host_name, row.attempts) == ("h1", 1)
    assert "join token" in row.reason
    await enrol(open_socket)
    assert not await in_db(RefusedAgent.objects.exists)()
    socket = await open_socket(PATH, authorization="Bearer wrong", x_novella_host="h1")
    await tell(socket, Hello(host="h1"))
    assert isinstance(await hear(socket), Refused)
    assert "credential is wrong" in (await in_db(RefusedAgent.objects.get)(host_name="h1")).reason


async def test_another_version_of_the_contract_is_refused_with_a_sentence(open_socket: Open) -> None:
    await enrol(open_socket)
    socket = await open_socket(PATH, authorization=f"Bearer {CREDENTIAL}h1", x_novella_host="h1")
    await tell(socket, Hello(host="h1", contract=CONTRACT_VERSION + 1))
    refused = await hear(socket)
    assert "version" in refused.reason


@pytest.mark.parametrize("frame", ['{"type":"heartbeat"}', "nonsense", '{"type":"launch"}', "[]", '"\ud83d"'])
async def test_a_link_must_begin_with_enrol_or_hello(open_socket: Open, frame: str) -> None:
    socket = await open_socket(PATH)
    await socket.send_to(frame.encode("utf-8", "replace").decode())
    assert isinstance(await hear(socket), Refused)
    assert await socket.closed() == link.REFUSED


async def hello_from(open_socket: Open, machine: str, credential: str = f"{CREDENTIAL}h1") -> tuple[Socket, Any]:
    socket = await open_socket(PATH, authorization=f"Bearer {credential}", x_novella_host="h1")
    await tell(socket, Hello(host="h1", machine=machine))
    return socket, await hear(socket)


async def test_a_copy_of_the_agents_folder_on_another_machine_is_refused_and_reported(
    open_socket: Open, caplog: pytest.LogCaptureFixture
) -> None:
    host = await enrol(open_socket)
    socket, answer = await hello_from(open_socket, "first")
    assert isinstance(answer, Welcome), "the first machine that says hello is remembered"
    for machine in ("second", ""):
        copy, answer = await hello_from(open_socket, machine)
        assert isinstance(answer, Refused), machine
        assert answer.final
        assert "another machine" in answer.reason
        assert await copy.closed() == link.REFUSED
    assert "second machine" in caplog.text
    assert isinstance(await hear(socket), Ownership)
    await in_db(order)(host)
    assert isinstance(await hear(socket), Command), "the host's own link goes on"
    assert [finding.subject for finding in await in_db(lambda: list(second_machines()))()] == ["host h1"]
    await socket.disconnect()


async def test_a_host_moves_to_another_machine_by_joining_again(open_socket: Open) -> None:
    await enrol(open_socket)
    first, _ = await hello_from(open_socket, "first")
    await first.disconnect()
    moved = await open_socket(PATH)
    token = await in_db(enrolment.create_join_token)("h1")
    await tell(moved, Enrol(join_token=token, host="h1", credential=f"{CREDENTIAL}h1", machine="second"))
    assert isinstance(await hear(moved), Welcome)
    await moved.disconnect()
    stayed, answer = await hello_from(open_socket, "first")
    assert isinstance(answer, Refused)
    await stayed.closed()
    again, answer = await hello_from(open_socket, "second")
    assert isinstance(answer, Welcome)
    await again.disconnect()


async def test_an_enrolment_is_repeated_on_its_own_machine_only(open_socket: Open) -> None:
    token = await in_db(enrolment.create_join_token)("h1")
    for machine, kind in (("first", Welcome), ("first", Welcome), ("second", Refused)):
        socket = await open_socket(PATH)
        await tell(socket, Enrol(join_token=token, host="h1", credential=f"{CREDENTIAL}h1", machine=machine))
        assert isinstance(await hear(socket), kind)
        await socket.disconnect()


async def test_a_host_gets_a_new_credential_over_its_link(open_socket: Open) -> None:
    """The old one is good until the host has said that it uses the new one."""
    host, old, new = await enrol(open_socket), f"{CREDENTIAL}h1", "n" * 40
    socket = await connect(open_socket, host)
    await in_db(credentials.renew)(["h1"])
    assert isinstance(await hear(socket), RenewCredential)
    await tell(socket, NewCredential(credential=new))
    assert isinstance(await hear(socket), CredentialTaken)
    for good in (old, new):
        assert (await in_db(enrolment.authenticate)("h1", good)).id == host.id
    await tell(socket, CredentialStored())
    await eventually(lambda: not Host.objects.get(id=host.id).next_credential_digest)
    assert (await in_db(enrolment.authenticate)("h1", new)).id == host.id
    with pytest.raises(NotAuthenticatedError):
        await in_db(enrolment.authenticate)("h1", old)
    await socket.disconnect()


async def test_a_host_that_says_hello_with_its_new_credential_has_confirmed_it(open_socket: Open) -> None:
    host, new = await enrol(open_socket), "n" * 40
    await in_db(credentials.renew)()
    await in_db(credentials.store_new)(host.id, new)
    socket, answer = await hello_from(open_socket, "", new)
    assert isinstance(answer, Welcome)
    with pytest.raises(NotAuthenticatedError):
        await in_db(enrolment.authenticate)("h1", f"{CREDENTIAL}h1")
    await socket.disconnect()


async def test_a_host_cannot_change_its_credential_unasked(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    await tell(socket, NewCredential(credential="n" * 40))
    assert isinstance(await hear(socket), Refused)
    with pytest.raises(NotAuthenticatedError):
        await in_db(enrolment.authenticate)("h1", "n" * 40)


async def test_an_unknown_frame_ends_the_link(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    await socket.send_to('{"type":"do_this_next"}')
    assert isinstance(await hear(socket), Refused)
    assert await socket.closed() == link.REFUSED


async def test_who_says_nothing_is_let_go(open_socket: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "FIRST_FRAME_WITHIN", 0.1)
    socket = await open_socket(PATH)
    assert await socket.closed() == link.REFUSED


async def test_a_newer_link_ends_the_older_and_the_host_stays_connected(open_socket: Open) -> None:
    host = await enrol(open_socket)
    older = await connect(open_socket, host)
    newer = await connect(open_socket, host)
    assert await older.closed() == link.REPLACED
    await older.disconnect()
    assert (await in_db(Host.objects.get)(id=host.id)).connected
    given = await in_db(order)(host)
    assert (await hear(newer)).id == str(given.id)


# ----- orders ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_an_order_is_delivered_when_it_commits_and_no_more_once_acknowledged(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    given = await in_db(order)(host)
    command = await hear(socket)
    assert isinstance(command, Command)
    assert (command.id, command.generation, command.body) == (str(given.id), 1, DestroyRequest())
    await tell(socket, CommandAck(ids=[command.id]))
    await eventually(lambda: not commands.pending(host.id))
    await socket.disconnect()
    later = await in_db(order)(host)
    again = await connect(open_socket, host)
    assert (await hear(again)).id == str(later.id)
    assert await again.receive_nothing(0.1)


async def test_orders_come_in_the_order_of_giving_and_again_until_acknowledged(open_socket: Open) -> None:
    host = await enrol(open_socket)
    given = [str((await in_db(order)(host)).id) for _ in range(5)]
    socket = await connect(open_socket, host)
    assert [(await hear(socket)).id for _ in given] == given
    await socket.disconnect()
    again = await connect(open_socket, host)
    assert [(await hear(again)).id for _ in given] == given


async def test_orders_carry_seconds_and_hosts_tell_their_time(open_socket: Open) -> None:
    """A clock two hours ahead changes nothing but what is told of it."""
    host = await enrol(open_socket)
    seconds = (await in_db(order_within)(host, 60)).timeout or 0
    assert 50 < seconds <= 60, "whole seconds, counted a moment later"
    socket = await connect(open_socket, host)
    given = await hear(socket)
    assert isinstance(given, Command)
    assert (given.timeout, given.total) == (seconds, seconds * settings.PROGRESS_LIMIT or None)
    assert given.begin_within is not None
    assert 0 < given.begin_within <= settings.HOST_QUEUE_TIMEOUT
    await tell(socket, Heartbeat(time=time.time() + 7200))
    await eventually(lambda: abs((Host.objects.get().clock_difference or 0) - 7200) < 60)


async def test_samples_are_stored_once_for_each_slot(open_socket: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(link, "time", SimpleNamespace(time=lambda: now))  # all come within one slot
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    frame = Samples(host=[1.5] * len(HOST_SERIES))
    for _ in range(3):
        await tell(socket, frame)
    await tell(socket, Heartbeat(time=time.time() + 7200))
    await eventually(lambda: Host.objects.get().clock_difference is not None)
    assert await in_db(Report.objects.filter(host_id=host.id).count)() == 1


async def test_hosts_send_no_samples_if_the_operator_wants_none(open_socket: Open, settings: Any) -> None:
    host = await enrol(open_socket)
    headers = {"authorization": f"Bearer {CREDENTIAL + host.name}", "x_novella_host": host.name}
    for requested, interval in ((True, 10.0), (False, 0.0)):
        settings.MEASURES = requested
        socket = await open_socket(PATH, **headers)
        await tell(socket, Hello(host=host.name))
        assert (await hear(socket)).sample_interval == interval


async def test_an_order_rolled_back_is_never_sent(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)

    def give_and_fail() -> None:
        with transaction.atomic():
            order(host)
            raise LookupError

    with pytest.raises(LookupError):
        await in_db(give_and_fail)()
    kept = await in_db(order)(host)
    assert (await hear(socket)).id == str(kept.id)


async def test_withdrawn_and_finished_orders_are_not_sent(open_socket: Open) -> None:
    host = await enrol(open_socket)
    withdrawn, finished, kept = [await in_db(order)(host) for _ in range(3)]
    await in_db(host_commands.withdraw_destroys)(host.id, withdrawn.subject_id, 2)
    assert await in_db(commands.finish)(host.id, str(finished.id))
    assert not await in_db(commands.finish)(host.id, str(finished.id))
    socket = await connect(open_socket, host)
    assert (await hear(socket)).id == str(kept.id)
    assert await socket.receive_nothing(0.1)


async def test_a_host_cannot_acknowledge_anothers_commands(open_socket: Open) -> None:
    one, two = await enrol(open_socket, "h1"), await enrol(open_socket, "h2")
    given = await in_db(order)(one)
    assert await in_db(commands.acknowledge)(two.id, [str(given.id), "nonsense"]) == 0
    assert not await in_db(commands.finish)(two.id, str(given.id))
    assert await in_db(lambda: len(commands.pending(one.id)))() == 1


# ----- reports --------------------------------------------------------------------------------------------------------


async def test_reports_are_acknowledged_up_to_the_last_whatever_they_say(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    foreign = [
        AgentEvent(seq=seq, subject_kind=SERVER, subject_id=text, generation=1, kind="finished", command_id=text)
        for seq, text in ((5, str(uuid.uuid4())), (6, "nonsense"), (9, ""))
    ]
    await tell(socket, Events(events=foreign))
    assert await hear(socket) == EventsAck(seq=9)
    await tell(socket, Events(events=[]))
    await tell(socket, Heartbeat())
    await eventually(lambda: Host.objects.get(id=host.id).last_seen_at)


async def test_reports_that_cannot_be_stored_are_not_acknowledged(
    open_socket: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)

    def full(*_: Any) -> None:
        raise OSError

    monkeypatch.setattr(link.reports, "receive", full)
    await tell(socket, Events(events=[AgentEvent(1, SERVER, "x", 1, "power")]))
    assert await socket.closed() == link.FAILED


# ----- questions ------------------------------------------------------------------------------------------------------


async def test_a_question_is_answered_through_the_link(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    call = asyncio.create_task(calls.acall(host.id, ConsoleOutputCall(instance_id="i", lines=5), timeout=WITHIN))
    question = await hear(socket)
    assert isinstance(question, Call)
    assert question.body.max_bytes == calls.MOST_CONSOLE_BYTES
    await tell(socket, CallReply(id=question.id, result=ConsoleOutput(text="hello\n")))
    assert await call == ConsoleOutput(text="hello\n")
    assert not await in_db(HostCall.objects.exists)()


async def test_a_question_from_a_thread_is_answered_too(open_socket: Open) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    ask = in_db(calls.call, thread_sensitive=False)
    call = asyncio.create_task(ask(host.id, ConsoleOutputCall(instance_id="i"), WITHIN))
    question = await hear(socket)
    await tell(socket, CallReply(id=question.id, result=ConsoleOutput(text="x")))
    assert (await call).text == "x"


async def test_a_host_that_does_not_answer_is_unavailable(open_socket: Open) -> None:
    host = await enrol(open_socket)
    with pytest.raises(UnavailableError, match="does not answer"):
        await calls.acall(host.id, ConsoleOutputCall(instance_id="i"), timeout=0.1)
    assert not await in_db(HostCall.objects.exists)()


async def test_a_host_cannot_answer_for_another_or_twice(open_socket: Open) -> None:
    one, two = await enrol(open_socket, "h1"), await enrol(open_socket, "h2")
    socket = await connect(open_socket, one)
    call = asyncio.create_task(calls.acall(one.id, ConsoleOutputCall(instance_id="i"), timeout=WITHIN))
    question = await hear(socket)
    answer = ConsoleOutput(text="forged")
    assert not await in_db(calls.answer)(two.id, question.id, answer)
    assert not await in_db(calls.answer)(one.id, "nonsense", answer)
    assert await in_db(calls.answer)(one.id, question.id, ConsoleOutput(text="true"))
    assert not await in_db(calls.answer)(one.id, question.id, answer)
    assert (await call).text == "true"


# ----- tasks ----------------------------------------------------------------------------------------------------------


async def test_an_acknowledgement_that_is_still_written_ends_with_the_link(
    open_socket: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await enrol(open_socket)
    begun: list[asyncio.Task[Any]] = []

    async def hangs(consumer: link.AgentConsumer, _: object) -> None:
        consumer._stored = []  # they are being written
        task = asyncio.current_task()
        assert task is not None
        begun.append(task)
        await asyncio.Event().wait()

    socket = await connect(open_socket, host)
    monkeypatch.setattr(link.AgentConsumer, "_acknowledge", hangs)
    await tell(socket, CommandAck(ids=[str(uuid.uuid4())]))
    async with asyncio.timeout(WITHIN):
        while not begun:
            await asyncio.sleep(0)
        await tell(socket, CommandAck(ids=[str(uuid.uuid4())]))
        while len(begun) < 2:
            await asyncio.sleep(0)
    await socket.disconnect()
    await asyncio.wait(begun, timeout=WITHIN)
    assert [task.cancelled() for task in begun] == [True, True]


@pytest.mark.slow
async def test_a_link_that_ends_itself_keeps_the_task_that_ends_it(
    open_socket: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    ending: list[weakref.ref[asyncio.Task[Any]]] = []

    async def hangs(*_: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        ending.append(weakref.ref(task))
        del task
        await asyncio.get_running_loop().create_future()  # nobody else refers to it

    monkeypatch.setattr(link.AgentConsumer, "_end", hangs)
    async with asyncio.timeout(WITHIN):
        while not ending:  # the link subscribes to its events after it has welcomed the host
            await in_db(record)(commands.topic(host.id), "link", {"link": "forgotten"})
            await asyncio.sleep(0.01)
    gc.collect()
    assert ending[0]() is not None
    await socket.disconnect()


# ----- certificates ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_host_without_certificates_is_asked_for_requests_and_notified_of_what_is_signed(
    open_socket: Open, tmp_path: Path
) -> None:
    host = await enrol(open_socket)
    socket = await connect(open_socket, host)
    kept = HostCertificates(tmp_path)
    await tell(socket, kept.request())  # not asked for: nothing is signed
    audit = ResourceAudit(
        vcpus=1,
        memory_mb=1,
        disk_gb=1,
        memory_mb_used=0,
        disk_gb_used=0,
        vcpus_used=0,
        running_vms=0,
        hypervisor_type="QEMU",
        hypervisor_version=1,
        hypervisor_hostname=host.name,
        certificates=kept.digest(),
    )
    await tell(socket, audit)
    assert isinstance(await hear(socket), RenewCertificate)
    await tell(socket, kept.request())
    given = await hear(socket)
    assert isinstance(given, Certificate)
    kept.store(given)
    assert kept.digest() == digest_of(given.ca, given.server, given.client)
    assert not await in_db(certificates.due)(host.id, kept.digest())
    await socket.disconnect()


async def test_a_command_acknowledged_while_commands_are_read_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, sent, key = link.AgentConsumer(), list[Message](), str(uuid.uuid4())
    idle = asyncio.Event()

    class News(asyncio.Event):
        async def wait(self) -> Literal[True]:
            idle.set()
            return await super().wait()

    def commands_for(_: uuid.UUID) -> list[Command]:
        consumer._sent.clear()  # as ``_acknowledge`` does in the meantime
        return [Command(id=key, subject_kind=SERVER, subject_id=key, generation=1, body=DestroyRequest())]

    async def tell(message: Message) -> None:
        sent.append(message)

    monkeypatch.setattr(versions, "commands_for", commands_for)
    monkeypatch.setattr(consumer, "_send_message", tell)
    consumer._sent, consumer._news = {key}, News()
    consumer._commands, consumer._calls, consumer._renewal = True, False, False
    delivering = asyncio.create_task(consumer._deliver(uuid.uuid4()))
    await asyncio.wait_for(idle.wait(), WITHIN)
    delivering.cancel()
    assert sent == []
