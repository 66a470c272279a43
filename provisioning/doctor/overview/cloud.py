"""The state of the cloud for the operators' first page, read from the records in a limited number of queries."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from compute_agent.contract.messages import CONTRACT_VERSION
from provisioning.common.context import RequestContext
from provisioning.compute.launch.room import FlavorRoom, room_by_flavor
from provisioning.compute.selectors.failed_launches import FailedLaunches, failed_launches
from provisioning.compute.selectors.gauges import instances_by_state
from provisioning.compute.selectors.usage import usage_by_project
from provisioning.doctor.finding import Finding
from provisioning.doctor.models import DoctorRun
from provisioning.doctor.overview import now
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.jobs.selectors import Depth, Periodic, depth, live_groups, periodic_work
from provisioning.volumes.models import StoragePool

RULE = "novella:cloud"
LAUNCHES_OF = timedelta(days=1)
MOST_LAUNCHES = 8
MOST_PROJECTS = 6


@dataclass(frozen=True, slots=True)
class Release:
    """Agents of one release; ``old``: they support an older contract than the portal."""

    version: str
    contract: int
    hosts: int

    @property
    def old(self) -> bool:
        return self.contract < CONTRACT_VERSION


@dataclass(frozen=True, slots=True)
class Work:
    """The queue, the worker groups (machine, topics, last beat) and periodic work."""

    queue: Depth
    groups: list[tuple[str, list[str], datetime]]
    periodic: list[Periodic]

    @property
    def overdue(self) -> list[Periodic]:
        """Overdue and failed periodic jobs, of those that have run."""
        return [job for job in self.periodic if (job.overdue and (job.holder or job.last_run_at)) or job.last_error]


@dataclass(frozen=True, slots=True)
class Cloud:
    """The state at the time ``at``. ``projects`` have the columns of ``usage_by_project``, largest first."""

    at: datetime
    hosts: list[Host]
    faults: list[Finding]
    reported: list[Finding]
    examined: DoctorRun | None
    launches: FailedLaunches
    servers: dict[str, int]
    room: list[FlavorRoom]
    projects: list[Any]
    work: Work
    releases: list[Release]


def cloud_for(context: RequestContext) -> Cloud:
    """Return the present state.  Raises ForbiddenError."""
    policy.enforce(context, RULE)
    at = timezone.now()
    hosts = list(Host.objects.order_by("name"))
    examined = DoctorRun.objects.order_by("-started_at", "-id").first()
    return Cloud(
        at=at,
        hosts=hosts,
        faults=now.faults(),
        reported=now.reported(examined),
        examined=examined,
        launches=failed_launches(at - LAUNCHES_OF, MOST_LAUNCHES),
        servers=instances_by_state(),
        room=room_by_flavor(),
        projects=_largest(context),
        work=Work(depth(), [(name, sorted(topics), beat) for name, topics, beat in live_groups()], periodic_work(at)),
        releases=_releases(hosts),
    )


def faults_of_host(context: RequestContext, host: Host) -> list[Finding]:
    """Return the present and the reported faults of a host.  Raises ForbiddenError."""
    return _faults_about(context, {f"host {host.name}", f"agent {host.name}"})


def faults_of_pool(context: RequestContext, pool: StoragePool) -> list[Finding]:
    """Return the faults of the pools that have this pool's name: the findings of the immediate checks and of the last
    report. Raises ForbiddenError.
    """
    return _faults_about(context, {f"pool {pool.name}"})


def _faults_about(context: RequestContext, subjects: Collection[str]) -> list[Finding]:
    policy.enforce(context, RULE)
    examined = DoctorRun.objects.order_by("-started_at", "-id").first()
    return [each for each in [*now.faults(), *now.reported(examined)] if each.subject in subjects]


def _largest(context: RequestContext) -> list[Any]:
    """Return the projects that use the most vCPUs."""
    rows = usage_by_project(context, RULE).order_by("-vcpus", "-memory_mb", "-volume_gb", "name")
    return [each for each in rows[:MOST_PROJECTS] if each.instances or each.volume_gb]


def _releases(hosts: list[Host]) -> list[Release]:
    counted = Counter((host.agent_version, host.contract_version) for host in hosts)
    return [Release(version, contract, many) for (version, contract), many in sorted(counted.items(), reverse=True)]
