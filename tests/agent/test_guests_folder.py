"""Two hosts never use one folder of guests: each would take the guests of the other for leftovers."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from compute_agent.link.errors import HostUnfitError
from compute_agent.settings import AgentSettings
from compute_agent.start import guests_folder
from compute_agent.start.clean import clean
from compute_agent.start.guests_folder import FOLDER, MARK
from compute_agent.start.machine import LOCK_NAME
from compute_agent.start.options import Options

SIMULATED = "fake-hypervisor.jsonl"


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    """The state folders of two hosts that have one folder of guests."""
    shared = tmp_path / "shared"
    shared.mkdir()
    states = [tmp_path / name for name in ("one", "two")]
    for state in states:
        state.mkdir()
        (state / FOLDER).symlink_to(shared)
    return states


def test_the_second_host_of_a_folder_does_not_start(hosts: list[Path]) -> None:
    one, two = hosts
    for _ in range(2):
        guests_folder.claim(one)
        with pytest.raises(HostUnfitError, match="belongs to another host"):
            guests_folder.claim(two)
    (two / FOLDER / MARK).unlink()  # as the message says, for a host that was installed again
    guests_folder.claim(two)


def test_a_host_keeps_its_folder_when_its_state_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    guests_folder.claim(tmp_path / "state")
    guests_folder.claim((tmp_path / "state").rename(tmp_path / "renamed"))


def test_a_mark_that_was_not_written_is_replaced(hosts: list[Path]) -> None:
    one, two = hosts
    (one / FOLDER / MARK).touch()
    guests_folder.claim(one)
    with pytest.raises(HostUnfitError):
        guests_folder.claim(two)


def test_an_agent_starts_on_a_full_file_system_and_marks_the_folder_later(
    hosts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one, two = hosts
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        guests_folder.claim(one)
        assert not (one / FOLDER / MARK).exists()
    guests_folder.claim(one)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(HostUnfitError):
            guests_folder.claim(two)


def test_the_guests_of_another_host_are_not_cleaned(hosts: list[Path]) -> None:
    one, two = hosts
    guests_folder.claim(one)
    guest = one / FOLDER / "guest"
    guest.touch()
    for state in hosts:
        for name in (LOCK_NAME, SIMULATED):  # the removal calls no hypervisor
            (state / name).touch()
    options = Options("clean", two, (AgentSettings(host="two", state_dir=two),), "INFO")
    with pytest.raises(HostUnfitError, match="belongs to another host"):
        clean(options)
    assert (two / FOLDER).exists()
    assert guest.exists()
    clean(replace(options, hosts=(AgentSettings(host="one", state_dir=one),)))
    assert not one.exists()
