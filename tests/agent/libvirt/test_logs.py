"""What a guest can make grow without end is cut: its console log, and what QEMU says of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from compute_agent.virt.libvirt import consoles
from compute_agent.virt.libvirt.domain_xml import domain_name
from compute_agent.virt.libvirt.host import HostOperations
from compute_agent.virt.libvirt.paths import HostPaths

UUID = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"


def test_both_logs_of_a_guest_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compute_agent.virt.libvirt.paths.RUN", tmp_path)
    paths = HostPaths(tmp_path / "state")
    paths.prepare()
    logs = (paths.instance(UUID).console_log, paths.emulator_log(domain_name(UUID)))
    for log in logs:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"x" * (3 << 20))
    HostOperations._keep_small(SimpleNamespace(_paths=paths), UUID)  # type: ignore[arg-type]
    for log in logs:
        assert log.stat().st_size == 3 << 20
        assert log.stat().st_blocks * 512 <= consoles.LOG_LIMIT
        assert log.read_bytes()[-10:] == b"x" * 10
