"""The metrics, read from the database on each request, so that all web processes report the same."""

from collections.abc import Iterable, Iterator
from itertools import accumulate

from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from portal.metrics.volumes import block_storage
from provisioning.common.database.sizes import database_size
from provisioning.common.values.tally import BOUNDS, Tally
from provisioning.compute.selectors import gauges, totals
from provisioning.compute.selectors.gauges import Capacity
from provisioning.compute.selectors.totals import ACTION, LAUNCH, STEP
from provisioning.hosts.commands import command_times
from provisioning.hosts.selectors import tracked_connections
from provisioning.jobs import retention
from provisioning.jobs.periodic.reaping import tasks_of_records
from provisioning.jobs.selectors import depths, live_workers, periodic_work
from provisioning.measures.selectors import newest_of_hosts
from provisioning.notifications.selectors import delivery_status

LIMITS = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")
OUTCOMES = ("success", "error", "deleted")
UNITS = (("vcpus", 1), ("memory_bytes", 1 << 20), ("disk_bytes", 1 << 30))
"""The amounts of a capacity in their order: name in the metric, and factor from the capacity's unit (MiB, GiB) to the
metric's.
"""

TRACKED = (
    ("", "entries", "Connections of guests that the host's kernel tracks."),
    ("_limit", "limit", "Connections that the host's kernel can track."),
    ("_port_limit", "share", "Tracked connections that each interface may begin."),
    ("_port_largest", "largest", "Tracked connections of the interface that has begun the most."),
)


USAGE = (
    ("cpu", "cpu_used", 1, "Processors in use."),
    ("memory", "memory_used_bytes", 1 << 20, "Memory in use."),
    ("disk", "disk_used_bytes", 1 << 30, "Disk space in use where the guests' disks are."),
    ("load", "load1", 1, "Load of one minute."),
    ("disk_read", "disk_read_bytes_per_second", 1, "Bytes read from the host's disk in a second."),
    ("disk_write", "disk_written_bytes_per_second", 1, "Bytes written to the host's disk in a second."),
    ("disk_reads", "disk_reads_per_second", 1, "Read requests to the host's disk in a second."),
    ("disk_writes", "disk_writes_per_second", 1, "Write requests to the host's disk in a second."),
    (
        "network_in",
        "network_received_bytes_per_second",
        1,
        "Bytes that the host's physical interfaces received in a second.",
    ),
    ("network_out", "network_sent_bytes_per_second", 1, "Bytes that the host's physical interfaces sent in a second."),
    (
        "packets_in",
        "network_received_packets_per_second",
        1,
        "Packets that the host's physical interfaces received in a second.",
    ),
    (
        "packets_out",
        "network_sent_packets_per_second",
        1,
        "Packets that the host's physical interfaces sent in a second.",
    ),
)
"""Series of hosts: name, name of the metric, factor from the series' unit to the metric's, and description."""


class CloudCollector(Collector):
    """All metrics of the cloud; with ``hosts``, also the metrics of each host."""

    def __init__(self, *, hosts: bool = False) -> None:
        self._hosts = hosts

    def describe(self) -> list[Metric]:
        """Return nothing, so that the registration of this collector does not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, with about thirty queries."""
        yield from _history()
        yield from _work()
        yield from _periodic()
        yield from _notifications()
        yield from _cloud()
        now = timezone.now()
        yield from _capacity("zone", gauges.capacity_by_zone(now), "novella")
        if self._hosts:
            yield from _capacity("host", gauges.capacity_by_host(now), "novella_host")
            yield from _usage()
        yield from _tracking(hosts=self._hosts)
        yield from block_storage(now)
        yield from _commands()
        yield from _database()


def _history() -> Iterator[Metric]:
    counted = totals.totals()
    launches = CounterMetricFamily("novella_launches", "Launches that have ended.", labels=["outcome"])
    lasted = HistogramMetricFamily(
        "novella_launch_seconds", "Seconds from the request to the end of a launch.", labels=["outcome"]
    )
    for outcome in OUTCOMES:
        tally = counted.get((LAUNCH, "", outcome), Tally())
        launches.add_metric([outcome], tally.count)
        lasted.add_metric([outcome], _buckets(tally), tally.seconds)
    yield launches
    yield lasted
    steps = HistogramMetricFamily(
        "novella_step_seconds", "Seconds of the steps of builds and snapshots.", labels=["step", "result"]
    )
    actions = CounterMetricFamily("novella_actions", "Actions on servers that have ended.", labels=["action", "result"])
    for (family, name, result), tally in sorted(counted.items()):
        if family == STEP:
            steps.add_metric([name, result], _buckets(tally), tally.seconds)
        elif family == ACTION:
            actions.add_metric([name, result], tally.count)
    yield steps
    yield actions


def _commands() -> Iterator[Metric]:
    lasted = HistogramMetricFamily(
        "novella_command_seconds", "Seconds from the creation of a command to its end on the host.", labels=["command"]
    )
    for kind, tally in sorted(command_times().items()):
        lasted.add_metric([kind.removesuffix("_request")], _buckets(tally), tally.seconds)
    yield lasted


def _work() -> Iterator[Metric]:
    waiting = GaugeMetricFamily("novella_queue_messages", "Messages of waiting and running jobs.", labels=["topic"])
    oldest = GaugeMetricFamily("novella_queue_oldest_seconds", "Age of the oldest message.", labels=["topic"])
    for topic, (many, age) in sorted(depths().items()):
        waiting.add_metric([topic], many)
        oldest.add_metric([topic], age)
    yield waiting
    yield oldest
    yield _gauge("novella_workers", "Worker groups that are alive.", live_workers())


def _periodic() -> Iterator[Metric]:
    interval = GaugeMetricFamily(
        "novella_periodic_interval_seconds", "Seconds between two runs of a periodic job.", labels=["job"]
    )
    began = GaugeMetricFamily(
        "novella_periodic_last_run_timestamp_seconds",
        "Start of the job's last run; 0: it has never run.",
        labels=["job"],
    )
    lasted = GaugeMetricFamily(
        "novella_periodic_last_duration_seconds", "Seconds of the job's last run.", labels=["job"]
    )
    failed = GaugeMetricFamily("novella_periodic_last_failed", "Whether the job's last run failed.", labels=["job"])
    overdue = GaugeMetricFamily("novella_periodic_overdue", "Whether the job is overdue.", labels=["job"])
    for job in periodic_work(timezone.now()):
        interval.add_metric([job.name], job.every)
        began.add_metric([job.name], job.last_run_at.timestamp() if job.last_run_at else 0)
        lasted.add_metric([job.name], job.last_seconds or 0)
        failed.add_metric([job.name], bool(job.last_error))
        overdue.add_metric([job.name], job.overdue)
    yield from (interval, began, lasted, failed, overdue)


def _notifications() -> Iterator[Metric]:
    now = delivery_status()
    yield _gauge("novella_notifications_waiting", "Notifications that wait for the webhook.", now.waiting)
    yield _gauge("novella_notifications_failed", "Notifications whose delivery was abandoned.", now.failed)
    counters = (
        ("delivered", "accepted by the webhook", now.delivered),
        ("given_up", "abandoned after the last attempt", now.given_up),
        ("dropped", "dropped, because they were too old", now.dropped),
    )
    for name, what, many in counters:
        yield CounterMetricFamily(f"novella_notifications_{name}", f"Notifications {what}.", value=many)


def _cloud() -> Iterator[Metric]:
    instances = GaugeMetricFamily("novella_instances", "Servers that are not deleted.", labels=["state"])
    for state, many in gauges.instances_by_state().items():
        instances.add_metric([state], many)
    yield instances
    moves = GaugeMetricFamily("novella_moves", "Migrations of servers that have not ended.", labels=["type"])
    for kind, many in gauges.moves_by_type().items():
        moves.add_metric([kind], many)
    yield moves
    now = timezone.now()
    overdue = gauges.tasks_overdue(now)
    yield _gauge("novella_tasks_overdue", "Servers with a task past its deadline.", overdue)
    running = GaugeMetricFamily("novella_record_tasks", "Running tasks of volumes, images …", labels=["record"])
    late = GaugeMetricFamily(
        "novella_record_tasks_overdue", "Tasks of volumes, images … past their deadline.", labels=["record"]
    )
    for kind, (many, many_late) in tasks_of_records(now).items():
        running.add_metric([kind], many)
        late.add_metric([kind], many_late)
    yield from (running, late)


def _database() -> Iterator[Metric]:
    yield _gauge("novella_database_bytes", "Size of the database.", database_size())
    tables = GaugeMetricFamily("novella_database_rows", "Rows of each kind of record.", labels=["kind"])
    for kind, many in retention.rows().items():
        tables.add_metric([kind], many)
    yield tables


def _capacity(label: str, rows: Iterable[Capacity], prefix: str) -> Iterator[Metric]:
    rows = list(rows)
    counts = {
        "hosts": ("Hosts.", [row.hosts for row in rows]),
        "agents_connected": ("Hosts whose agent is connected.", [row.connected for row in rows]),
        "hosts_up": ("Hosts that sent a heartbeat recently.", [row.up for row in rows]),
        "hosts_enabled": ("Hosts that get new servers.", [row.enabled for row in rows]),
        "hosts_wrong_clock": ("Hosts whose clock is too far from the portal's.", [row.wrong_clock for row in rows]),
        "servers": ("Servers that occupy resources on hosts.", [row.servers for row in rows]),
    }
    for at, (unit, factor) in enumerate(UNITS):
        counts[unit] = ("Capacity of the hosts.", [row.total[at] * factor for row in rows])
        counts[f"{unit}_allocatable"] = ("Capacity that may be allocated.", [row.limit[at] * factor for row in rows])
        counts[f"{unit}_allocated"] = ("Capacity that is allocated.", [row.allocated[at] * factor for row in rows])
    for name, (what, values) in counts.items():
        family = GaugeMetricFamily(f"{prefix}_{name}", what, labels=[label])
        for row, value in zip(rows, values, strict=True):
            family.add_metric([row.name], value)
        yield family


def _tracking(*, hosts: bool) -> Iterator[Metric]:
    """Yield, for each zone, how full the connection tracking table of the fullest host is. With ``hosts``, also yield
    each host's tracked connections, its limits, and the connections of the interface with the most.
    """
    rows = tracked_connections()
    fullest: dict[str, float] = {}
    for _, zone, tracking in rows:
        fullest[zone] = max(fullest.get(zone, 0.0), tracking["entries"] / max(tracking["limit"], 1))
    what = "How full connection tracking is on the host where it is fullest."
    ratio = GaugeMetricFamily("novella_connections_fullest_ratio", what, labels=["zone"])
    for zone, value in sorted(fullest.items()):
        ratio.add_metric([zone], value)
    yield ratio
    for name, key, what in TRACKED if hosts else ():
        family = GaugeMetricFamily(f"novella_host_connections{name}", what, labels=["host"])
        for host, _, tracking in rows:
            family.add_metric([host], tracking[key])
        yield family


def _usage() -> Iterator[Metric]:
    """Yield the usage of each host, from its newest samples."""
    newest = sorted(newest_of_hosts().items())
    for series, name, factor, what in USAGE:
        family = GaugeMetricFamily(f"novella_host_{name}", what, labels=["host"])
        for host, found in newest:
            if series in found:
                family.add_metric([host], found[series] * factor)
        yield family


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(name, what, value=value)


def _buckets(tally: Tally) -> list[tuple[str, float]]:
    """Return cumulative buckets, as Prometheus requires."""
    return list(zip(LIMITS, accumulate(tally.buckets), strict=True))
