"""Removes everything that belongs to one data folder: services, guests, network, files."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from up.data_folder import DataFolder, DataFolderError
from up.places import Places
from up.programs import CHECKOUT, SWITCHED
from up.supervisor import end_left_behind

STOP_WITHIN = 60.0
"""Seconds for a running bin/up to stop its services."""
END_WITHIN = 10.0
NETWORK_NAMESPACES = Path("/run/netns")


def clean(data: DataFolder, say: Callable[[str], None]) -> int:
    """Stop the services, let the agent remove its guests and network, then delete the folder.

    Raises DataFolderError if the folder is not Novella's, or if a file system is mounted inside it.
    """
    if not data.exists:
        _end_namespaces(data.netns)
        say(f"Nothing to remove: {data.path} does not exist.")
        return 0
    if not data.is_ours:
        message = f"{data.path} was not created by bin/up; it is left unchanged."
        raise DataFolderError(message)
    inside = mounts_below(data.path)
    if inside:
        message = f"{inside[0]} is mounted inside {data.path}; unmount it first."
        raise DataFolderError(message)
    _stop_services(data, say)
    _remove_guests(data, say)
    _end_namespaces(data.netns)
    shutil.rmtree(data.path)
    say(f"Removed {data.path} and everything that belongs to it.")
    return 0


def mounts_below(folder: Path) -> list[str]:
    """Return the mount points inside the folder: deleting the folder would delete the files of the mounted file
    systems.
    """
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]


def _stop_services(data: DataFolder, say: Callable[[str], None]) -> None:
    """Stop the bin/up that has locked the folder."""
    if not data.try_acquire():
        owner = data.owner()
        say("Stopping the services …")
        if owner is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(owner, signal.SIGTERM)
        if not data.acquire_within(STOP_WITHIN):
            message = f"the services on {data.path} (process {owner}) do not stop; end them first."
            raise DataFolderError(message)
    end_left_behind(data)


def _remove_guests(data: DataFolder, say: Callable[[str], None]) -> None:
    hosts = [path for path in (data.path / "hosts").glob("*") if path.is_dir()]
    if not hosts:
        return
    say("Removing guests and networks …")
    command = [sys.executable, "-m", "compute_agent", "clean"]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    for host in hosts:
        words = [*command, "--state-dir", str(host), *_where(data, host.name)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            message = f"the guests of {host.name} could not be removed: {(done.stderr or done.stdout).strip()[-600:]}"
            raise DataFolderError(message)


def _where(data: DataFolder, host: str) -> list[str]:
    """Return the agent's options for its network namespaces; each of several hosts has its own."""
    kind, _, number = host.rpartition("-")
    places = Places(data.netns)
    if kind == SWITCHED and number.isdecimal() and (NETWORK_NAMESPACES / places.machine(int(number))).exists():
        return places.agent_options(int(number))
    return ["--netns", data.netns]


def _end_namespaces(name: str) -> None:
    """End all processes in the folder's network namespaces, and remove the namespaces: ``name`` and all whose names
    begin with ``name-``.
    """
    for path in [NETWORK_NAMESPACES / name, *NETWORK_NAMESPACES.glob(f"{name}-*")]:
        _end_namespace(path.name)


def _end_namespace(name: str) -> None:
    """End all processes in a network namespace, and remove the namespace."""
    if not (NETWORK_NAMESPACES / name).exists():
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + END_WITHIN
        asked: set[int] = set()
        while (pids := _inside(name)) and time.monotonic() < deadline:
            for pid in pids - asked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            asked |= pids
            time.sleep(0.05)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _inside(name: str) -> set[int]:
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
    return {int(word) for word in listed.split()} - {os.getpid()}
