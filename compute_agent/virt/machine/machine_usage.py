"""Usage of this machine, from the kernel's counters in /proc and /sys."""

import contextlib
import os
import re
from pathlib import Path

from compute_agent.virt.driver import Values

PROC, SYS = Path("/proc"), Path("/sys")
SECTOR = 512
GIB = 1 << 30
_PHYSICAL = re.compile(r"(en|eth|wl|ww|ib)[a-z0-9]+$")
"""Names of interfaces to other machines. Bonds, bridges and VLANs would count the same packets again."""
_IDLE = (3, 4)
"""Columns of /proc/stat without work: idle, and waiting for a disk."""


def machine_usage(disks: Path, *, proc: Path = PROC, sys: Path = SYS) -> Values:
    """Return the values of ``HOST_SERIES``; ``disks`` is the directory of the guests' disks. A value that the
    kernel does not show is None.
    """
    cpu = memory = load = used = None
    with contextlib.suppress(OSError, ValueError, IndexError):
        cpu = _busy_seconds((proc / "stat").read_text())
    with contextlib.suppress(OSError, ValueError, KeyError):
        memory = _used_memory((proc / "meminfo").read_text())
    with contextlib.suppress(OSError, ValueError, IndexError):
        load = float((proc / "loadavg").read_text().split()[0])
    with contextlib.suppress(OSError):
        room = os.statvfs(disks)
        used = (room.f_blocks - room.f_bfree) * room.f_frsize / GIB
    return (cpu, memory, *_disk(disks, sys), *_network(proc), load, used)


def _busy_seconds(stat: str) -> float:
    """Return the processors' seconds of work. The seconds of guests are not added, because "user" and "nice" include
    them.
    """
    ticks = [int(each) for each in stat.split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - sum(ticks[at] for at in _IDLE)) / os.sysconf("SC_CLK_TCK")


def _used_memory(meminfo: str) -> float:
    values = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    total, available = (int(values[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    return (total - available) / 1024


def _disk(disks: Path, sys: Path) -> Values:
    """Return bytes read and written, and requests, of the block device that has the directory."""
    try:
        device = disks.stat().st_dev
        text = (sys / f"dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text()
        columns = [int(each) for each in text.split()]
        return (columns[2] * SECTOR, columns[6] * SECTOR, columns[0], columns[4])
    except (OSError, ValueError, IndexError):
        return (None, None, None, None)


def _network(proc: Path) -> Values:
    """Return bytes in and out, and packets in and out, of the machine's physical interfaces.

    An agent in a network namespace reads the interfaces of the first process, which is outside.
    """
    sums = [0, 0, 0, 0]
    seen = False
    for line in _interfaces(proc):
        name, _, counters = line.partition(":")
        columns = counters.split()
        if _PHYSICAL.match(name.strip()) and len(columns) > 9:
            seen = True
            for at, column in enumerate((0, 8, 1, 9)):
                sums[at] += int(columns[column])
    return tuple(sums) if seen else (None, None, None, None)


def _interfaces(proc: Path) -> list[str]:
    for process in ("1", "self"):
        with contextlib.suppress(OSError):
            return (proc / process / "net/dev").read_text().splitlines()
    return []
