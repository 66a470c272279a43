"""Fetching image bits: with the host's credential, in the name of the instance that needs them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from compute_agent.link import image_fetch
from compute_agent.link.credential import Credential, store
from compute_agent.link.dial import here
from compute_agent.link.image_fetch import ImageFetcher
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import ImageFetchError
from tests.agent.cast import PATIENCE, make_spec
from tests.agent.small_portal import SmallPortal, small_portal

IMAGE = "9c000000-0000-4000-8000-000000000009"


def fetch(tmp_path: Path, portal: SmallPortal) -> bytes:
    store(tmp_path, Credential("host-1", "secret-1", enrolled=True))
    fetcher = ImageFetcher(AgentSettings(host="host-1", state_dir=tmp_path, portal_url=portal.url), here)
    spec = make_spec("1b000000-0000-4000-8000-00000000000b")
    return b"".join(fetcher(spec.image, spec.uuid))


async def test_the_bits_come_by_the_right_of_the_instance(tmp_path: Path) -> None:
    bits = bytes(range(256)) * 10_000
    async with small_portal(image=bits) as portal:
        assert await asyncio.to_thread(fetch, tmp_path, portal) == bits
        assert portal.asked == [
            (f"/agent/v1/instances/1b000000-0000-4000-8000-00000000000b/images/{IMAGE}", "Bearer secret-1"),
        ]


async def test_without_the_right_there_are_no_bits(tmp_path: Path) -> None:
    async with small_portal() as portal:
        with pytest.raises(ImageFetchError) as error:
            await asyncio.to_thread(fetch, tmp_path, portal)
        assert error.value.retryable
        assert "403" in error.value.detail
        assert "403" not in error.value.message


async def test_bits_that_break_off_are_an_error(tmp_path: Path) -> None:
    async with small_portal(image=b"half", promised=8) as portal:
        with pytest.raises(ImageFetchError):
            await asyncio.to_thread(fetch, tmp_path, portal)


async def test_a_portal_that_is_starting_again_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, listening = threading.Event(), threading.Event()

    def pause(_: float) -> None:
        refused.set()
        assert listening.wait(PATIENCE)

    monkeypatch.setattr(image_fetch, "time", SimpleNamespace(sleep=pause))
    async with small_portal(image=b"bits") as portal:
        await portal.go_down()
        fetching = asyncio.create_task(asyncio.to_thread(fetch, tmp_path, portal))
        assert await asyncio.to_thread(refused.wait, PATIENCE)
        await portal.listen()
        listening.set()
        assert await fetching == b"bits"
        await portal.go_down()
        with pytest.raises(ImageFetchError):
            await asyncio.to_thread(fetch, tmp_path, portal)
