"""A host's guests as its metadata service knows them: by their interfaces, and as the portal has described them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.commands import RefreshPortsRequest
from compute_agent.contract.messages import AgentEvent
from compute_agent.network.fake import FakeNetwork
from compute_agent.network.host_network import GuestInterface
from compute_agent.servers.guest_directory import GuestDirectory
from tests.agent.cast import Stage, build, make_command, make_spec, make_stage, on_stage

SPEC = make_spec()
PORT = SPEC.ports[0]
ADDRESS = PORT.fixed_ips[0].address


class OneGuest(FakeNetwork):
    """Knows whose the address is."""

    def interface_at(self, network_id: str, address: str) -> GuestInterface | None:
        if (network_id, address) != (PORT.network.id, ADDRESS):
            return None
        return GuestInterface(SPEC.uuid, PORT.id, floating="203.0.113.7")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with on_stage(make_stage(tmp_path, network=OneGuest())) as made:
        await made.do(build(SPEC))
        yield made


@pytest.fixture
async def directory(stage: Stage) -> GuestDirectory:
    host = stage.host
    return GuestDirectory(asyncio.get_running_loop(), stage.network, host._store, host.outbox)


async def test_a_guest_is_found_by_network_and_address(stage: Stage, directory: GuestDirectory) -> None:
    result = await asyncio.to_thread(directory.asker, PORT.network.id, ADDRESS)
    assert result is not None
    assert (result.spec.uuid, result.port.id, result.floating) == (SPEC.uuid, PORT.id, "203.0.113.7")
    for network, address in ((PORT.network.id, "192.0.2.1"), ("another", ADDRESS)):
        assert await asyncio.to_thread(directory.asker, network, address) is None
        assert directory.guest(network, address) is None
    assert directory.guest(PORT.network.id, ADDRESS) == SPEC.uuid


async def test_a_posted_password_is_reported_once_and_the_portal_s_next_word_counts(
    stage: Stage, directory: GuestDirectory
) -> None:
    asker = await asyncio.to_thread(directory.asker, PORT.network.id, ADDRESS)
    assert asker is not None
    assert await asyncio.to_thread(directory.post_password, asker, "c2VhbGVk")
    assert not await asyncio.to_thread(directory.post_password, asker, "other")
    assert posted(stage.host.outbox._pending.values(), stage.said) == ["c2VhbGVk"]
    again = await asyncio.to_thread(directory.asker, PORT.network.id, ADDRESS)
    assert again is not None
    assert again.spec.posted_password == "c2VhbGVk"
    await stage.do(make_command(RefreshPortsRequest(instance=replace(SPEC, name="cleared")), SPEC.uuid))
    cleared = await asyncio.to_thread(directory.asker, PORT.network.id, ADDRESS)
    assert cleared is not None
    assert (cleared.spec.name, cleared.spec.posted_password) == ("cleared", "")
    assert await asyncio.to_thread(directory.post_password, cleared, "bmV3")


def posted(*events: object) -> list[str]:
    result = {event.seq: event for some in events for event in some if isinstance(event, AgentEvent)}  # type: ignore[attr-defined]
    return [event.detail["password"] for _, event in sorted(result.items()) if event.kind == "posted"]
