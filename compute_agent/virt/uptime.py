"""For how long this machine has run, in the words of ``uptime``."""

import os
import time
from datetime import timedelta
from pathlib import Path

UPTIME = Path("/proc/uptime")


def machine_uptime() -> str:
    """Return the line that ``uptime`` prints, by the kernel's own count; empty where the kernel does not tell."""
    try:
        seconds = float(UPTIME.read_text().split()[0])
        load = os.getloadavg()
    except (OSError, ValueError, IndexError):
        return ""
    return uptime_line(time.localtime(), seconds, load)


def uptime_line(now: time.struct_time, seconds: float, load: tuple[float, float, float]) -> str:
    """Write `` 08:32:11 up 93 days, 18:25,  0 users,  load average: 0.20, 0.12, 0.14``.

    Who has signed in to the machine is not the cloud's to tell, so the users are none.
    """
    run = timedelta(seconds=int(seconds))
    hours, minutes = divmod(run.seconds // 60, 60)
    days = f"{run.days} day{'' if run.days == 1 else 's'}, " if run.days else ""
    lasted = f"{hours:2d}:{minutes:02d}" if hours else f"{minutes} min"
    loads = ", ".join(f"{value:.2f}" for value in load)
    return f" {time.strftime('%H:%M:%S', now)} up {days}{lasted},  0 users,  load average: {loads}"
