"""The uptime of this machine, in the format of ``uptime``."""

import os
import time
from datetime import timedelta
from pathlib import Path

UPTIME = Path("/proc/uptime")


def machine_uptime() -> str:
    """Return the line that ``uptime`` prints, from the kernel's counters; empty if they are unavailable."""
    try:
        seconds = float(UPTIME.read_text().split()[0])
        load = os.getloadavg()
    except (OSError, ValueError, IndexError):
        return ""
    return uptime_line(time.localtime(), seconds, load)


def uptime_line(now: time.struct_time, seconds: float, load: tuple[float, float, float]) -> str:
    """Format `` 08:32:11 up 93 days, 18:25, 0 users, load average: 0.20, 0.12, 0.14``.

    Logins to the machine are not disclosed, so the number of users is 0.
    """
    run = timedelta(seconds=int(seconds))
    hours, minutes = divmod(run.seconds // 60, 60)
    days = f"{run.days} day{'' if run.days == 1 else 's'}, " if run.days else ""
    lasted = f"{hours:2d}:{minutes:02d}" if hours else f"{minutes} min"
    loads = ", ".join(f"{value:.2f}" for value in load)
    return f" {time.strftime('%H:%M:%S', now)} up {days}{lasted},  0 users,  load average: {loads}"
