"""Encrypted volumes on a machine that is too busy for QEMU to measure it, and where their keys are meanwhile."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest

from compute_agent.contract.volume import VolumeEncryption
from compute_agent.virt.processes.programs import ProgramError
from compute_agent.volumes.files import luks
from compute_agent.volumes.rbd.images import CephError

BUSY = "qemu-img exited with 1: 1.qcow2: Unable to get accurate CPU usage"


@pytest.mark.parametrize("kind", [ProgramError, CephError])
@pytest.mark.parametrize(("text", "again"), [(BUSY, True), ("qemu-img exited with 1: No space left on device", False)])
def test_what_could_not_be_measured_is_tried_again_and_nothing_else(
    kind: type[Exception], text: str, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def make() -> None:
        calls.append(text)
        if len(calls) < 30:
            raise kind(text)

    monkeypatch.setattr(luks, "PAUSE", 0.0)
    if again:
        luks.make_header(make)
    else:
        with pytest.raises(kind):
            luks.make_header(make)
    assert len(calls) == (30 if again else 1)


def test_a_key_is_in_memory_only_and_gone_at_the_end() -> None:
    encryption = VolumeEncryption(key=base64.b64encode(b"secret").decode())
    with luks.key_file(encryption, "luks") as description:
        file = Path(description.partition("file=")[2])
        assert file.read_text() == encryption.key
        assert file.is_relative_to("/dev/shm")
        assert file.parent.stat().st_mode & 0o077 == 0
    assert not file.parent.exists()


def test_keys_of_agents_that_were_killed_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    folders = [tmp_path / f"novella-key-{pid}-abc" for pid in (os.getpid(), ended.pid)]
    for folder in folders:
        folder.mkdir()
        (folder / "key").touch()
    monkeypatch.setattr(luks, "_MEMORY", tmp_path)
    luks.sweep()
    assert list(tmp_path.iterdir()) == folders[:1]
