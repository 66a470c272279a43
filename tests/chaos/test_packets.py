"""A small chaos run whose hosts have real networks, from the command line as a person would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from up.data_folder import DataFolder

CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACES = Path("/run/netns")
SECONDS = 1500
"""The most that a busy machine takes for a run."""
LONG = ("--operations 7 --seed 5", "--operations 30 --seed 11")
pytestmark = [pytest.mark.libvirt, pytest.mark.timeout(1800)]


@pytest.fixture(autouse=True)
def _root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: bridges and namespaces")


@pytest.mark.deep
@pytest.mark.parametrize("words", ["--small --moves --operations 4 --seed 2959", *LONG])
def test_what_passes_is_what_the_records_say_and_nothing_is_left(tmp_path: Path, words: str) -> None:
    """The short run moves one guest cold and one live, while an agent is killed."""
    seed = words.split()[-1]
    done = subprocess.run(
        [str(CHECKOUT / "bin/chaos"), "--packets", *words.split()],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Clean: seed {seed}" in done.stdout
    sent = re.search(r"Packets between (\d+) interfaces: (.*)\.", done.stdout)
    assert sent is not None, done.stdout
    assert int(sent[1]) >= 4
    for kind in (
        "DHCP offers",
        "metadata",
        "flows that pass",
        "flows through routers",
        "flows that do not",
        "spoofed frames",
        "ways out",
        "from outside",
    ):
        assert kind in sent[2], done.stdout
    assert list(tmp_path.iterdir()) == []
    cloud = re.search(rf"{tmp_path}/\S+", done.stdout)
    assert cloud is not None, done.stdout
    name = DataFolder(Path(cloud[0], "cloud"), CHECKOUT / "var").netns
    assert list(NAMESPACES.glob(f"{name}*")) == []


HOLDER = """
import sys, time
from pathlib import Path
from tools.chaos.packets.hosts import Hosts
from up.places import Places
Hosts(Places(sys.argv[1]), ["one", "two"], Path(sys.argv[2])).make()
print("made", flush=True)
time.sleep(600)
"""


def test_namespaces_go_with_a_run_that_is_killed(tmp_path: Path) -> None:
    name = f"nvk{os.getpid()}"
    path = os.pathsep.join([str(CHECKOUT), str(CHECKOUT / "bin/libexec")])
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, name, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "made\n"
        made = {path.name for path in NAMESPACES.glob(f"{name}-*")}
        holder.kill()
    assert made == {f"{name}-{each}" for each in ("1", "2", "outside", "switch")}
    deadline = time.monotonic() + SECONDS
    while (left := list(NAMESPACES.glob(f"{name}-*"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
