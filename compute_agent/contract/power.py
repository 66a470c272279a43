"""Power states with Nova's numbers: the one axis that the hypervisor decides."""

import enum


class PowerState(enum.IntEnum):
    """What the hypervisor says of a guest; the numbers are those of the Compute API's ``OS-EXT-STS:power_state``."""

    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7
