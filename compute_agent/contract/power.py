"""Power states with Nova's numbers, as the hypervisor reports them."""

import enum


class PowerState(enum.IntEnum):
    """A guest's power state; the numbers are those of the Compute API's ``OS-EXT-STS:power_state``."""

    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7
