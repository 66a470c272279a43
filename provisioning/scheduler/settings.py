"""Choosing hosts."""

from provisioning.common.environment import decimal, integer, names, text

MAX_SCHEDULE_ATTEMPTS = integer("NOVELLA_MAX_SCHEDULE_ATTEMPTS", 3, 1, 10)
"""Maximum number of hosts on which a launch is tried."""
SCHEDULER_DRIVER = text("NOVELLA_SCHEDULER_DRIVER", "filter")
"""How a host is chosen: ``filter``, ``chance``, ``availability-zone``, ``simple``, or the dotted path of your own class
([choosing hosts](operator-guide.md#choosing-hosts)).
"""
SCHEDULER_DEFAULT_ZONE = text("NOVELLA_SCHEDULER_DEFAULT_ZONE", "")
"""With the driver ``availability-zone``: the zone of launches that specify none."""
SCHEDULER_FILTERS = names("NOVELLA_SCHEDULER_FILTERS", ["default"])
"""Filters in order of execution, separated by commas; ``default`` stands for all built-in filters."""
SCHEDULER_WEIGHERS = names("NOVELLA_SCHEDULER_WEIGHERS", ["default"])
"""Weighers, separated by commas; ``default`` stands for all built-in weighers."""
SCHEDULER_PLACEMENT = text("NOVELLA_SCHEDULER_PLACEMENT", "spread")
"""``spread`` or ``pack``: the default multiplier of memory, vCPUs and disk is 1 or -1."""
SCHEDULER_RAM_WEIGHT = decimal("NOVELLA_SCHEDULER_RAM_WEIGHT", shown="by placement")
"""Multiplier of the weigher ``RAMWeigher``; as for all multipliers, 0 disables the weigher and a negative number
prefers the opposite.
"""
SCHEDULER_CPU_WEIGHT = decimal("NOVELLA_SCHEDULER_CPU_WEIGHT", shown="by placement")
"""Multiplier of ``CPUWeigher``."""
SCHEDULER_DISK_WEIGHT = decimal("NOVELLA_SCHEDULER_DISK_WEIGHT", shown="by placement")
"""Multiplier of ``DiskWeigher``."""
SCHEDULER_IO_WEIGHT = decimal("NOVELLA_SCHEDULER_IO_WEIGHT", shown="1")
"""Multiplier of ``IoOpsWeigher``."""
SCHEDULER_SOFT_AFFINITY_WEIGHT = decimal("NOVELLA_SCHEDULER_SOFT_AFFINITY_WEIGHT", shown="10")
"""Multiplier of ``ServerGroupSoftAffinityWeigher``."""
SCHEDULER_SOFT_ANTI_AFFINITY_WEIGHT = decimal("NOVELLA_SCHEDULER_SOFT_ANTI_AFFINITY_WEIGHT", shown="10")
"""Multiplier of ``ServerGroupSoftAntiAffinityWeigher``."""
SCHEDULER_BUILD_FAILURE_WEIGHT = decimal("NOVELLA_SCHEDULER_BUILD_FAILURE_WEIGHT", shown="2")
"""Multiplier of ``BuildFailureWeigher``."""
SCHEDULER_IMAGE_CACHED_WEIGHT = decimal("NOVELLA_SCHEDULER_IMAGE_CACHED_WEIGHT", shown="0.5")
"""Multiplier of ``ImageCachedWeigher``."""
SCHEDULER_MAX_INSTANCES_PER_HOST = integer("NOVELLA_SCHEDULER_MAX_INSTANCES_PER_HOST", 0, 0, 1_000_000)
"""Maximum servers of a host, unless its aggregates set another number (``max_instances_per_host``); 0: any number."""
SCHEDULER_MAX_IO_OPS_PER_HOST = integer("NOVELLA_SCHEDULER_MAX_IO_OPS_PER_HOST", 0, 0, 1_000_000)
"""Maximum concurrent builds, copies and migrations of servers on a host, unless its aggregates set another number
(``max_io_ops_per_host``); 0: any number.
"""
SCHEDULER_SUBSET_SIZE = integer("NOVELLA_SCHEDULER_SUBSET_SIZE", 1, 1, 100)
"""Number of best hosts among which the host of a launch is chosen at random."""
