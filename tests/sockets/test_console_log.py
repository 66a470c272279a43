"""The console log's socket: one reader for all who follow a guest, and what each gets; foreign servers do not exist."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract import console_pieces
from compute_agent.contract.calls import Call, CallError, ConsoleOpened, FollowConsoleCall
from compute_agent.contract.console_pieces import ConsolePiece, pack
from compute_agent.contract.messages import CallReply
from portal.sockets import follower, guest_logs
from provisioning.compute.models import Instance
from provisioning.events.models import Event
from provisioning.events.selectors import latest_id
from provisioning.hosts.models import Host, HostCall
from tests.agent_link.test_link import CREDENTIAL, connect, enrol, eventually, hear, tell
from tests.support.cast import People, Person
from tests.support.sockets import ORIGIN, Open, Socket, cookie_of, in_db

pytestmark = pytest.mark.slow


def server_of(person: Person, host: Host | None) -> Instance:
    now = timezone.now()
    return Instance.objects.create(
        project_id=person.project_id,
        user_id=person.user_id,
        name="web",
        hostname="web",
        host=host,
        flavor={
            "name": "m1.nano",
            "vcpus": 1,
            "memory_mb": 96,
            "ephemeral_gb": 0,
            "swap_mb": 0,
            "disk_gb": 1,
            "extra_specs": {},
        },
        reservation_id="r-1",
        request_id="req-1",
        created_at=now,
        updated_at=now,
    )


async def console(open_socket: Open, person: Person, instance_id: Any, query: str = "") -> Socket:
    token = await in_db(lambda: person.token)()
    path = f"/ws/dashboard/servers/{instance_id}/console-log{query}"
    return await open_socket(path, origin=ORIGIN, cookie=cookie_of(token))


class Guest:
    """A server of alice's on a host with a link, whose console log a test writes."""

    def __init__(self, opener: Open, people: People) -> None:
        self.open = opener
        self.people = people

    async def begin(self) -> Guest:
        self.host = await enrol(self.open)
        self.agent = await connect(self.open, self.host)
        self.server = await in_db(server_of)(self.people.alice, self.host)
        return self

    async def follow(self, query: str = "", person: Person | None = None) -> Socket:
        return await console(self.open, person or self.people.alice, self.server.id, query)

    async def next_call(self) -> Call:
        """The question that reaches the host."""
        call = await hear(self.agent)
        assert isinstance(call, Call)
        return call

    async def dial(self, *kept: tuple[int, bytes]) -> Socket:
        """Be asked, agree, dial, and send what is kept of the log."""
        call = await self.next_call()
        assert isinstance(call.body, FollowConsoleCall)
        assert call.body.instance_id == str(self.server.id)
        assert call.body.share == f"project {self.server.project_id}"
        await tell(self.agent, CallReply(id=call.id, result=ConsoleOpened()))
        bearer = f"Bearer {CREDENTIAL}{self.host.name}"
        path = f"/ws/agent/consoles/{call.body.tunnel}"
        far = await self.open(path, authorization=bearer, x_novella_host=self.host.name)
        assert far.accepted
        for start, data in kept:
            await write(far, start, data)
        return far


async def write(far: Socket, start: int, data: bytes) -> None:
    await far.send_to(bytes_data=pack(ConsolePiece(start, data)))


async def read(page: Socket, count: int) -> tuple[str, int]:
    """Read so many characters; returns them and the offset behind them."""
    text, offset = "", -1
    while len(text) < count:
        frame = await page.json()
        assert offset in {-1, frame["start"]}
        text, offset = text + frame["text"], frame["offset"]
    return text, offset


@pytest.fixture
async def guest(open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch) -> Guest:
    monkeypatch.setattr(guest_logs, "AGAIN", 0.02)
    monkeypatch.setattr(guest_logs, "RETRY", 0.02)
    return await Guest(open_socket, people).begin()


async def test_what_the_guest_writes_follows_live(guest: Guest) -> None:
    page = await guest.follow()
    far = await guest.dial((100, b"<b>boot\n"))
    assert await page.json() == {"text": "<b>boot\n", "start": 100, "offset": 108}
    await write(far, 108, b"more")
    assert await page.json() == {"text": "more", "start": 108, "offset": 112}


async def test_nothing_that_the_guest_writes_passes_through_the_database(guest: Guest) -> None:
    page = await guest.follow()
    far = await guest.dial((0, b"boot\n"))
    await read(page, 5)
    before = await in_db(latest_id)()
    for number in range(20):
        await write(far, 5 + 5 * number, b"~log~")
    await read(page, 100)
    events = await in_db(lambda: list(Event.objects.filter(id__gt=before).values_list("payload", flat=True)))()
    assert "~log" not in repr(events)  # the launch before it may still be telling of itself
    await eventually(lambda: not HostCall.objects.exists())  # the host's answer may be read behind its first bytes


async def test_all_who_follow_a_guest_share_one_reader(guest: Guest) -> None:
    pages = [await guest.follow()]
    far = await guest.dial((0, b"boot\n"))
    await read(pages[0], 5)
    pages += [await guest.follow(), await guest.follow("?offset=1")]
    assert await pages[1].json() == {"text": "boot\n", "start": 0, "offset": 5}
    assert await pages[2].json() == {"text": "oot\n", "start": 1, "offset": 5}
    await write(far, 5, b"more")
    assert [await read(page, 4) for page in pages] == [("more", 9)] * 3
    for page in pages[:2]:
        await page.disconnect()
    await write(far, 9, b"!")
    assert await read(pages[2], 1) == ("!", 10)
    assert await guest.agent.receive_nothing()
    await pages[2].disconnect()
    assert await far.closed() == 1000  # nobody follows any more


async def test_another_project_shares_nothing(guest: Guest) -> None:
    page = await guest.follow()
    await guest.dial((0, b"secret\n"))
    await read(page, 7)
    stranger = await guest.follow(person=guest.people.charlie)
    assert await stranger.closed() == follower.NOT_FOUND


async def test_who_comes_without_an_offset_gets_the_last_lines(guest: Guest) -> None:
    page = await guest.follow()
    await guest.dial((0, b"line\n" * 500))
    text, offset = await read(page, 2000)
    assert (text, offset) == ("line\n" * 400, 2500)


async def test_a_page_that_was_away_for_long_goes_on_with_what_is_kept(guest: Guest) -> None:
    page = await guest.follow("?offset=50")
    await guest.dial((1000, b"kept\n"))
    assert await page.json() == {"text": "kept\n", "start": 1000, "offset": 1005}


async def test_a_page_that_saw_another_log_begins_anew(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuilt server writes a new one."""
    monkeypatch.setattr(guest_logs, "CATCH_UP", 0.02)
    page = await guest.follow("?offset=5000")
    far = await guest.dial((0, b"new\n"))
    assert await page.json() == {"text": "new\n", "start": 0, "offset": 4}
    await write(far, 0, b"newer\n")
    assert await page.json() == {"text": "r\n", "start": 4, "offset": 6}


async def test_a_page_that_is_ahead_of_the_reader_gets_nothing_twice(guest: Guest) -> None:
    page = await guest.follow("?offset=6")
    far = await guest.dial((0, b"boot\n"))
    await write(far, 5, b"abc")
    assert await page.json() == {"text": "bc", "start": 6, "offset": 8}


async def test_characters_are_split_nowhere_and_hostile_bytes_are_replaced(guest: Guest) -> None:
    page = await guest.follow()
    snow = "☃".encode()
    far = await guest.dial((0, b"\xff<script>" + snow[:1]))
    assert await read(page, 9) == ("\ufffd<script>", 9)
    await write(far, 10, snow[1:])
    assert await read(page, 1) == ("☃", 12)


async def test_a_guest_that_writes_without_end_fills_no_memory(guest: Guest) -> None:
    page = await guest.follow()
    far = await guest.dial((0, b"begin\n"))
    await read(page, 6)
    piece = b"x" * 65_536
    for number in range(40):
        await write(far, 6 + number * len(piece), piece)
    end = 6 + 40 * len(piece)
    frames = [await page.json()]
    while frames[-1]["offset"] < end:
        frames.append(await page.json())
    (log,) = guest_logs.guest_logs._read.values()
    assert len(log._kept) <= console_pieces.MOST_BYTES
    assert max(len(frame["text"]) for frame in frames) <= 65_536
    assert len(frames) < 40  # what was not kept is passed over


@pytest.mark.parametrize("frame", [b"short", b"\0" * 8 + b"x" * 262_145])
async def test_what_is_no_piece_ends_the_reader(guest: Guest, frame: bytes) -> None:
    page = await guest.follow()
    far = await guest.dial((0, b"boot\n"))
    await read(page, 5)
    await far.send_to(bytes_data=frame)
    assert "error" in await page.json()
    assert await far.closed() == 1000
    await guest.dial((0, b"boot\nagain"))
    assert await page.json() == {"text": "again", "start": 5, "offset": 10}


async def test_a_reader_that_breaks_off_is_begun_again(guest: Guest) -> None:
    """As when the agent starts anew."""
    pages = [await guest.follow()]
    far = await guest.dial((0, b"boot\n"))
    await read(pages[0], 5)
    pages.append(await guest.follow())
    await read(pages[1], 5)
    await far.disconnect()
    await guest.dial((0, b"boot\nagain"))
    for page in pages:
        assert await read(page, 5) == ("again", 10)
    assert await guest.agent.receive_nothing()


@pytest.mark.parametrize(
    ("answer", "frame"),
    [
        (CallError(code="busy", message="Too many are followed."), {"error": "Too many are followed."}),
        (CallError(code="failed", message="inside"), {"error": "The console log cannot be read now."}),
    ],
)
async def test_a_host_that_refuses_is_asked_again_later(guest: Guest, answer: CallError, frame: dict[str, str]) -> None:
    page = await guest.follow()
    await tell(guest.agent, CallReply(id=(await guest.next_call()).id, result=answer))
    assert await page.json() == frame
    await guest.dial((0, b"up"))
    assert (await page.json())["text"] == "up"


async def test_a_host_that_does_not_dial_is_reported_in_a_sentence(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_logs, "DIAL_WITHIN", 0.05)
    page = await guest.follow()
    await tell(guest.agent, CallReply(id=(await guest.next_call()).id, result=ConsoleOpened()))
    assert await page.json() == {"error": "The server's host did not call back."}


async def test_a_server_without_a_guest_yet_is_waited_for(guest: Guest) -> None:
    await in_db(Instance.objects.filter(id=guest.server.id).update)(host=None)
    page = await guest.follow()
    await in_db(Instance.objects.filter(id=guest.server.id).update)(host=guest.host)
    question = await guest.next_call()
    await tell(guest.agent, CallReply(id=question.id, result=CallError(code="not_found", message="no such guest")))
    await guest.dial((0, b"up"))
    assert (await page.json())["text"] == "up"


async def test_a_host_that_is_away_is_reported_in_a_sentence(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_logs, "ANSWER_WITHIN", 0.1)
    host = await enrol(open_socket)
    server = await in_db(server_of)(people.alice, host)
    page = await console(open_socket, people.alice, server.id)
    assert await page.json() == {"error": "The host does not answer."}


async def test_another_projects_server_does_not_exist(open_socket: Open, people: People) -> None:
    server = await in_db(server_of)(people.alice, None)
    for instance_id in (server.id, uuid.uuid4()):
        page = await console(open_socket, people.charlie, instance_id)
        assert await page.closed() == follower.NOT_FOUND


async def test_a_deleted_server_closes_the_page(
    open_socket: Open, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_logs, "AGAIN", 0.02)
    server = await in_db(server_of)(people.alice, None)
    page = await console(open_socket, people.alice, server.id)
    await in_db(Instance.objects.filter(id=server.id).update)(vm_state="deleted")
    assert await page.closed() == follower.NOT_FOUND
