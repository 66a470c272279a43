"""Removal of all guests of a host: processes are killed only if they use the host's disks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compute_agent.settings import AgentSettings
from compute_agent.virt.libvirt.cleanup import remove_everything
from compute_agent.virt.libvirt.paths import HostPaths


@pytest.mark.parametrize(
    ("argument", "removed"),
    [
        ("{short}/instances/1/disk.qcow2", True),  # also of a guest that came to a libvirt daemon
        ("{short}/libvirt/run/1", True),
        ("{short}0/instances/1/disk.qcow2", False),
        ("/run/novella-other/instances/1/disk.qcow2", False),
    ],
)
def test_processes_that_use_disks_of_the_host_are_killed(tmp_path: Path, argument: str, *, removed: bool) -> None:
    settings = AgentSettings(host="h1", state_dir=tmp_path / "state", virt_type="auto")
    short = HostPaths(settings.state_dir).short
    folder = settings.state_dir / "libvirt/run/qemu"
    folder.mkdir(parents=True)
    command = ["/bin/sh", "-c", "echo started; read line", argument.format(short=short)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the kernel shows no command line before the program runs
        (folder / "guest.pid").write_text(str(process.pid))
        done = remove_everything(settings)
        assert (f"guest guest (process {process.pid})" in done) is removed
        assert (process.poll() is not None) is removed
        assert not (settings.state_dir / "libvirt").exists()
    finally:
        process.kill()
        process.communicate()
