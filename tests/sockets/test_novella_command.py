"""The command ``novella`` against a web server, with a program in the guest's place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from portal.client import errors
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.users import revoke_all
from provisioning.images.models import Image
from tests.sockets.test_guest_port_streams import NOBODY, Guest, guest
from tests.support.cast import Person
from tests.support.roles import remove_role
from tests.support.sockets import in_db
from tests.web.conftest import port, serve, usual_server

pytestmark = pytest.mark.slow

__all__ = ["guest", "port", "serve", "usual_server"]
ROOT = Path(__file__).resolve().parents[2]


def environment(guest: Guest, person: Person) -> dict[str, str]:
    """The variables of an openrc with an application credential, and nothing of this machine's own configuration."""
    record, secret = create_application_credential(person.user, person.project, f"robot {uuid.uuid4()}")
    url = f"http://127.0.0.1:{guest.port}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "NOVELLA"))}
    return kept | {
        "OS_AUTH_URL": f"{url}/identity/v3",
        "OS_AUTH_TYPE": "v3applicationcredential",
        "OS_APPLICATION_CREDENTIAL_ID": record.id.hex,
        "OS_APPLICATION_CREDENTIAL_SECRET": secret,
        "OS_COMPUTE_ENDPOINT_OVERRIDE": f"{url}/compute/v2.1",
        "OS_IMAGE_ENDPOINT_OVERRIDE": f"{url}/image",
        "OS_CLIENT_CONFIG_FILE": "/dev/null",
    }


async def novella(guest: Guest, *arguments: str, person: Person | None = None, **variables: str) -> Process:
    environ = {**await in_db(environment)(guest, person or guest.people.alice), **variables}
    program = [sys.executable, "-m", "portal.client.main", *arguments]
    return await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT, env=environ)


async def result_of(process: Process, data: bytes = b"") -> tuple[bytes, str, int | None]:
    async with asyncio.timeout(120):
        output, complaint = await process.communicate(data)
    return output, complaint.decode(), process.returncode


async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(f"{len(await reader.read())} bytes".encode())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def test_standard_streams_have_their_ends_each(guest: Guest) -> None:
    async with guest.runs(count):
        process = await novella(guest, "tunnel", "web:22", "--stdio")
        assert await result_of(process, b"x" * 3_000_000) == (b"3000000 bytes", "", 0)


@pytest.mark.deep
async def test_a_name_that_no_shell_likes(guest: Guest) -> None:
    """It is found by its name, and any server by its id."""
    async with guest.runs(count):
        for name, target in (("ünï: $(x) 東京", "ünï: $(x) 東京"), ("-oProxyCommand=x", str(guest.server.id))):
            await in_db(Instance.objects.update)(name=name)
            process = await novella(guest, "tunnel", f"{target}:22", "--stdio")
            assert await result_of(process, b"12") == (b"2 bytes", "", 0)


@pytest.mark.deep
async def test_of_two_servers_with_one_name_none_is_taken(guest: Guest) -> None:
    def copy() -> None:
        other = Instance.objects.get()
        other.pk, other.reservation_id = uuid.uuid4(), "r-2"
        other.save(force_insert=True)

    await in_db(copy)()
    output, complaint, code = await result_of(await novella(guest, "tunnel", "web:22", "--stdio"))
    assert (output, code) == (b"", errors.NOT_FOUND)
    assert "use the id" in complaint


@contextlib.asynccontextmanager
async def listening(guest: Guest, *arguments: str) -> AsyncIterator[tuple[str, int, Process]]:
    process = await novella(guest, "tunnel", "web:5432", *arguments)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(120):
            line = (await process.stderr.readline()).decode()
        match = re.match(r"novella: (\S+):(\d+) is forwarded to port 5432 of web", line)
        assert match is not None, line
        yield match[1], int(match[2]), process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.deep
async def test_a_local_port_takes_many_connections(guest: Guest) -> None:
    async with guest.runs(echo), listening(guest) as (address, port, _):
        assert address == "127.0.0.1"
        pairs = [await asyncio.open_connection(address, port) for _ in range(5)]
        for number, (_, writer) in enumerate(pairs):
            writer.write(bytes([number]) * 100_000)
            writer.write_eof()
        async with asyncio.timeout(120):
            result = await asyncio.gather(*(reader.read() for reader, _ in pairs))
        assert result == [bytes([number]) * 100_000 for number in range(5)]
        for _, writer in pairs:
            writer.close()
    step = await in_db(InstanceActionEvent.objects.get)()
    assert (step.detail["port"], step.detail["connections"]) == ("5432", "5")


@pytest.mark.deep
async def test_a_local_port_outlives_a_connection_that_fails(guest: Guest) -> None:
    guest.network.listener = NOBODY
    async with listening(guest) as (address, port, process):
        reader, writer = await asyncio.open_connection(address, port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert process.stderr is not None
        assert b"The guest does not accept connections at port 5432" in await process.stderr.readline()
        async with guest.runs(echo):
            reader, writer = await asyncio.open_connection(address, port)
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"
            writer.close()


@pytest.mark.deep
async def test_a_right_that_is_taken_away_cuts_what_is_open(guest: Guest) -> None:
    alice = guest.people.alice
    async with guest.runs(echo), listening(guest) as (address, port, process):
        reader, writer = await asyncio.open_connection(address, port)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        await in_db(remove_role)(alice.user, alice.project, "member")
        async with asyncio.timeout(120):
            with pytest.raises(ConnectionResetError):
                await reader.read()
        writer.close()
        assert process.stderr is not None
        assert (await process.stderr.readline()).startswith(b"novella: ")


@pytest.mark.deep
async def test_a_token_that_is_revoked_ends_the_program(guest: Guest) -> None:
    async with guest.runs(echo):
        process = await novella(guest, "tunnel", "web:22", "--stdio")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        assert await process.stdout.readexactly(1) == b"x"
        await in_db(revoke_all)(guest.people.alice.user)
        async with asyncio.timeout(120):
            assert await process.wait() == errors.NOT_SIGNED_IN


@pytest.mark.parametrize(
    ("who", "target", "variables", "code", "words"),
    [
        ("alice", "nobody:22", {}, errors.NOT_FOUND, "There is no server nobody."),
        *(
            pytest.param(*row, marks=pytest.mark.deep)
            for row in (
                ("charlie", "web:22", {}, errors.NOT_FOUND, "There is no server web."),
                ("bob", "web:22", {}, errors.FORBIDDEN, ""),
                ("alice", "web:22", {"OS_APPLICATION_CREDENTIAL_SECRET": "wrong"}, errors.NOT_SIGNED_IN, "sign-in"),
                ("alice", "web:22", {"OS_AUTH_URL": "http://127.0.0.1:1/identity/v3"}, errors.UNREACHABLE, "reached"),
                ("alice", "web", {}, errors.USAGE, "is not NAME:PORT"),
                ("alice", "web:0", {}, errors.USAGE, "is not a port"),
            )
        ),
    ],
)
async def test_what_goes_wrong_is_one_line(
    guest: Guest, who: str, target: str, variables: dict[str, str], code: int, words: str
) -> None:
    person: Any = getattr(guest.people, who)
    process = await novella(guest, "tunnel", target, "--stdio", person=person, **variables)
    output, complaint, result = await result_of(process)
    assert (output, result) == (b"", code), complaint
    assert words in complaint
    assert complaint.count("\n") == 1 or code == errors.USAGE
    assert "Traceback" not in complaint


@pytest.mark.deep
async def test_a_stopped_server_is_reported(guest: Guest) -> None:
    await in_db(Instance.objects.update)(power_state=4)
    output, complaint, code = await result_of(await novella(guest, "tunnel", "web:22", "--stdio"))
    assert (output, complaint, code) == (b"", f"novella: Instance {guest.server.id} is not ready\n", errors.NOT_READY)


async def test_ssh_is_started_with_the_tunnel_and_the_servers_own_key(guest: Guest, tmp_path: Path) -> None:
    """A program in the place of ssh runs the ProxyCommand as ssh would."""
    program = tmp_path / "ssh"
    program.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case $word in ProxyCommand=*) proxy=${word#ProxyCommand=};; esac; done\n'
        'printf "%s\\n" "$@" >"$0.said"\n'
        'printf hello | sh -c "exec $proxy"\n'
        "exit 7\n"
    )
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    def image() -> None:
        row = Image.objects.create(
            name="debian", project_id=guest.people.alice.project_id, properties={"os_admin_user": "debian"}
        )
        Instance.objects.update(image_id=row.id)

    await in_db(image)()
    async with guest.runs(count):
        arguments = ["ssh", "web", "--key", "~/k", "-o", "Compression=yes", "--", "cat", "-v", "/a b"]
        result = await result_of(await novella(guest, *arguments, PATH=path, HOME="/h"))
    assert result == (b"5 bytes", "", 7)
    words = program.with_suffix(".said").read_text().splitlines()
    assert words[-7:] == ["-l", "debian", "--", "web", "cat", "-v", "/a b"]
    assert f"HostKeyAlias=novella-{guest.server.id}" in words
    assert words[words.index("-i") + 1] == "/h/k"
    assert "Compression=yes" in words
    assert not any("token" in word for word in words)
