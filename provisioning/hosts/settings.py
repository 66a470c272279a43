"""Hosts."""

from provisioning.common.environment import integer, networks, number

CPU_ALLOCATION_RATIO = number("NOVELLA_CPU_ALLOCATION_RATIO", 4.0)
"""vCPUs that may be allocated for each processor of a host. Hosts get it when they enrol; an operator can change it for
each host in the admin.
"""
RAM_ALLOCATION_RATIO = number("NOVELLA_RAM_ALLOCATION_RATIO", 1.0)
"""MiB that may be allocated to guests for each MiB of a host. Hosts get it when they enrol."""
DISK_ALLOCATION_RATIO = number("NOVELLA_DISK_ALLOCATION_RATIO", 1.0)
"""GiB that may be allocated to guests for each GiB of a host. Hosts get it when they enrol."""
RESERVED_HOST_MEMORY_MB = integer("NOVELLA_RESERVED_HOST_MEMORY_MB", 512, 0, 10_000_000)
"""MiB that are reserved for the host itself."""
RESERVED_HOST_DISK_GB = integer("NOVELLA_RESERVED_HOST_DISK_GB", 0, 0, 10_000_000)
"""GiB that are reserved for the host itself."""
HOST_NETWORKS = networks("NOVELLA_HOST_NETWORKS")
"""Networks that must contain the addresses at which hosts reach each other, ``10.9.0.0/24,10.9.1.0/24`` ([networks
between hosts](operator-guide.md#networks-between-hosts)). Without this setting a host keeps its first reported address,
or may change it to the source address of its agent's connection.
"""
HEARTBEAT_INTERVAL = integer("NOVELLA_HEARTBEAT_INTERVAL", 10, 1, 600)
"""Seconds between two heartbeats of an agent."""
HOST_DOWN_AFTER = integer("NOVELLA_HOST_DOWN_AFTER", 35, 2, 3600)
"""Seconds without a heartbeat after which a host is down and gets no new instances."""
AUDIT_INTERVAL = integer("NOVELLA_AUDIT_INTERVAL", 60, 5, 3600)
"""Seconds between two reports of a host's resources."""
HOST_QUEUE_TIMEOUT = integer("NOVELLA_HOST_QUEUE_TIMEOUT", 1800, 5, 604_800)
"""Seconds that a command may wait in the queue of a host that is up."""
PROGRESS_LIMIT = integer("NOVELLA_PROGRESS_LIMIT", 0, 0, 1000)
"""Total duration of a command that keeps making progress, as a multiple of its timeout; 0: no limit."""
CLOCK_DIFFERENCE_LIMIT = integer("NOVELLA_CLOCK_DIFFERENCE_LIMIT", 60, 1, 86_400)
"""Seconds that a host's clock may differ from the portal's before this is reported."""
