"""Hypervisors (Compute API reference, "Hypervisors"): memory in MiB, disk in GiB."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework.request import Request

from portal.api.compute import dialect
from portal.api.frame import OLDEST, Attribute, Json, Operation, Parameter, Reader, query_of
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.lists.listing import ItemListing, Part
from provisioning.common.values.ids import read_id
from provisioning.common.values.unset import UNSET
from provisioning.compute.selectors.compute_services import number_of
from provisioning.compute.selectors.hosts import servers_on, workloads
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import hosts_for, is_alive

PAGED = (2, 33)
LAST_NUMBERS, BY_UUID = (2, 52), (2, 53)
"""The last version with numbers as ids, and the first with UUIDs, and with filters of lists."""
LAST_TEXT, AS_OBJECT = (2, 27), (2, 28)
"""The last version with the processor as a text, and the first with an object."""
ALWAYS_SERVERS = (2, 75)
"""From this version on ``servers`` is not omitted if it is empty."""
LAST_RESOURCES, NO_RESOURCES = (2, 87), (2, 88)
"""The last version with resources, and the first with the uptime instead."""
WITH_SERVERS = Parameter("with_servers", dialect.BOOLEAN, since=BY_UUID, once=True)
PARAMETERS = (
    Parameter("limit", dialect.COUNT, since=PAGED, until=LAST_NUMBERS),
    Parameter("marker", dialect.TEXT, since=PAGED, until=LAST_NUMBERS),
    Parameter("limit", dialect.COUNT, since=BY_UUID, once=True),
    Parameter("marker", dialect.TEXT, since=BY_UUID, once=True),
    Parameter("hypervisor_hostname_pattern", dialect.HOST, since=BY_UUID, once=True),
    WITH_SERVERS,
)


def hypervisor_for(view: dialect.ComputeView, text: str) -> Host:
    """Return the hypervisor with this id. Raises NotFoundError, and from 2.53 on InvalidInputError for an invalid
    UUID.
    """
    if view.microversion >= BY_UUID and read_id(text) is None:
        raise InvalidInputError(f"Invalid uuid {text[:64]}", field="hypervisor_id")
    requested = str(read_id(text) or text)
    found = next((host for host in hosts_for(view.context) if str(_ident(view, host)) == requested), None)
    if found is None:
        raise NotFoundError(f"Hypervisor with ID '{text[:64]}' could not be found.")
    return found


def _ident(view: dialect.ComputeView, host: Host) -> object:
    """Return the id of a hypervisor in the microversion's format."""
    return host.id if view.microversion >= BY_UUID else number_of(host.id)


def _matching(view: dialect.ComputeView, pattern: str) -> list[Host]:
    """Return the hypervisors whose names contain the pattern. Raises NotFoundError if none match."""
    found = [host for host in hosts_for(view.context) if pattern in _hostname(host)]
    if not found:
        raise NotFoundError(f"No hypervisor matching '{pattern[:255]}' could be found.")
    return found


def _list(
    view: dialect.ListView, query: Mapping[str, str], limit: int | None = None, marker: str | None = None
) -> list[Host]:
    by_name = ItemListing[Host](marker=partial(_ident, view), no_marker="marker [{marker}] not found")
    return by_name.page(hosts_for(view.context), Part(limit=limit, marker=marker))


class HypervisorsView(dialect.ListView):
    """``GET /os-hypervisors`` and ``…/detail``."""

    def page(self) -> tuple[Sequence[Host], Json]:
        """Return all hypervisors that match a pattern, or the requested page."""
        pattern = self.query_values.get("hypervisor_hostname_pattern")
        if pattern is None:
            return super().page()
        if self.query_values.keys() & {"limit", "marker"}:
            raise InvalidInputError(
                "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.",
                field="hypervisor_hostname_pattern",
            )
        return _matching(self, pattern), {}


def _hostname(host: Host) -> str:
    return host.hypervisor_hostname or host.name


def _uptime(host: Host) -> str | None:
    """The host's uptime as last reported; None if it is down or has not reported it."""
    return host.uptime or None if is_alive(host, timezone.now()) else None


def _service(host: Host, ident: object) -> Json:
    return {"id": ident, "host": host.name, "disabled_reason": host.disabled_reason or None}


def _cpu_info(host: Host) -> Json:
    """The processor as the host reported it: architecture, model, vendor, features and topology."""
    reported = host.cpu_info
    if not reported:
        return {}
    topology = {name: int(reported[name]) for name in ("sockets", "cores", "threads") if _is_count(reported.get(name))}
    return {
        "arch": reported.get("arch") or host.architecture,
        "model": reported.get("model", ""),
        "vendor": reported.get("vendor", ""),
        "features": [name for name in str(reported.get("features", "")).split(",") if name],
        "topology": topology,
    }


def _is_count(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 6


def _memory_used(host: Host) -> int:
    """Allocated and reserved memory."""
    return host.memory_mb_allocated + host.reserved_memory_mb


def _disk_used(host: Host) -> int:
    return host.disk_gb_allocated + host.reserved_disk_gb


class Workload(Attribute):
    """The number of running tasks of a hypervisor's servers."""

    def reader(self, view: Any, rows: Sequence[Host]) -> Reader:
        tasks = workloads()
        return lambda host: tasks.get(host.id, 0)


class Servers(Attribute):
    """The servers of a hypervisor."""

    def reader(self, view: Any, rows: Sequence[Host]) -> Reader:
        found = servers_on([host.id for host in rows])
        empty: Any = [] if view.microversion >= ALWAYS_SERVERS else UNSET
        return lambda host: [{"name": name, "uuid": str(server)} for name, server in found.get(host.id, ())] or empty


class RequestedServers(Servers):
    """The servers of a hypervisor, shown only if the query requests them."""

    def is_shown(self, view: Any) -> bool:
        return dialect.boolean(view.query_values.get("with_servers"))


BRIEF = (
    Attribute("id", dialect.SHOWN, show=lambda host: number_of(host.id), until=LAST_NUMBERS),
    Attribute("id", dialect.ID, since=BY_UUID),
    Attribute("hypervisor_hostname", dialect.SHOWN, show=_hostname),
    Attribute("state", dialect.SHOWN, show=lambda host: "up" if is_alive(host, timezone.now()) else "down"),
    Attribute("status", dialect.SHOWN, show=lambda host: "enabled" if host.enabled else "disabled"),
)
RESOURCES = (
    Attribute("vcpus", dialect.SHOWN, column="vcpus_total", until=LAST_RESOURCES),
    Attribute("vcpus_used", dialect.SHOWN, column="vcpus_allocated", until=LAST_RESOURCES),
    Attribute("memory_mb", dialect.SHOWN, column="memory_mb_total", until=LAST_RESOURCES),
    Attribute("memory_mb_used", dialect.SHOWN, show=_memory_used, until=LAST_RESOURCES),
    Attribute(
        "free_ram_mb", dialect.SHOWN, show=lambda host: host.memory_mb_total - _memory_used(host), until=LAST_RESOURCES
    ),
    Attribute("local_gb", dialect.SHOWN, column="disk_gb_total", until=LAST_RESOURCES),
    Attribute("local_gb_used", dialect.SHOWN, show=_disk_used, until=LAST_RESOURCES),
    Attribute(
        "free_disk_gb", dialect.SHOWN, show=lambda host: host.disk_gb_total - _disk_used(host), until=LAST_RESOURCES
    ),
    Attribute(
        "disk_available_least",
        dialect.SHOWN,
        show=lambda host: host.disk_gb_total - host.disk_gb_used,
        until=LAST_RESOURCES,
    ),
    Attribute("running_vms", dialect.SHOWN, until=LAST_RESOURCES),
    Workload("current_workload", dialect.SHOWN, until=LAST_RESOURCES),
)
"""Capacity and usage; allocated and reserved resources count as used."""
REQUESTED_SERVERS = RequestedServers("servers", dialect.SHOWN)
HYPERVISOR = dialect.Resource(
    name="hypervisor",
    path="os-hypervisors",
    list=Operation(_list, "os_compute_api:os-hypervisors:list", "List the hypervisors by name.", parameters=PARAMETERS),
    detailed=Operation(
        _list, "os_compute_api:os-hypervisors:list-detail", "List the hypervisors by name.", parameters=PARAMETERS
    ),
    show=Operation(hypervisor_for, "os_compute_api:os-hypervisors:show", parameters=(WITH_SERVERS,)),
    short=(*BRIEF, REQUESTED_SERVERS),
    attributes=(
        *BRIEF,
        Attribute("host_ip", dialect.SHOWN),
        Attribute("hypervisor_type", dialect.SHOWN),
        Attribute("hypervisor_version", dialect.SHOWN),
        Attribute("service", dialect.SHOWN, show=lambda host: _service(host, number_of(host.id)), until=LAST_NUMBERS),
        Attribute("service", dialect.SHOWN, show=lambda host: _service(host, str(host.id)), since=BY_UUID),
        Attribute("uptime", dialect.SHOWN, show=_uptime, since=NO_RESOURCES),
        *RESOURCES,
        Attribute("cpu_info", dialect.SHOWN, show=lambda host: json.dumps(_cpu_info(host)), until=LAST_TEXT),
        Attribute("cpu_info", dialect.SHOWN, show=_cpu_info, since=AS_OBJECT, until=LAST_RESOURCES),
        REQUESTED_SERVERS,
    ),
)
HYPERVISORS = replace(dialect.COMPUTE, lists=HypervisorsView, parameters=partial(query_of, strict_from=BY_UUID))


class HypervisorUptimeView(dialect.ResourceView):
    """``GET /os-hypervisors/{id}/uptime``, up to 2.87."""

    resource = HYPERVISOR
    rules = {"GET": "os_compute_api:os-hypervisors:uptime"}
    versions = {"GET": (OLDEST, LAST_RESOURCES)}

    def get(self, request: Request, identity: str) -> Json:
        """Show the host's uptime from the last audit of its agent."""
        host = hypervisor_for(self, identity)
        uptime = _uptime(host)
        if uptime is None:
            raise InvalidInputError(f"Compute service of {host.name} is unavailable at this time.")
        [shape] = self.shapes([host], BRIEF)
        return {"hypervisor": shape | {"uptime": uptime}}


class HypervisorSearchView(dialect.ResourceView):
    """``GET /os-hypervisors/{pattern}/search``, up to 2.52."""

    resource = HYPERVISOR
    rules = {"GET": "os_compute_api:os-hypervisors:search"}
    versions = {"GET": (OLDEST, LAST_NUMBERS)}
    attributes: ClassVar[Sequence[Attribute]] = BRIEF

    def get(self, request: Request, pattern: str) -> Json:
        """List the hypervisors whose names contain the pattern."""
        return {"hypervisors": self.shapes(_matching(self, pattern), self.attributes)}


class HypervisorServersView(HypervisorSearchView):
    """``GET /os-hypervisors/{pattern}/servers``, up to 2.52."""

    rules = {"GET": "os_compute_api:os-hypervisors:servers"}
    attributes = (*BRIEF, Servers("servers", dialect.SHOWN))


class HypervisorStatisticsView(dialect.ResourceView):
    """``GET /os-hypervisors/statistics``, up to 2.87."""

    resource = HYPERVISOR
    rules = {"GET": "os_compute_api:os-hypervisors:statistics"}
    versions = {"GET": (OLDEST, LAST_RESOURCES)}

    def get(self, request: Request) -> Json:
        """Show the sums over all enabled hypervisors."""
        found = [host for host in hosts_for(self.context) if host.enabled]
        sums: Counter[str] = Counter({each.name: 0 for each in RESOURCES})
        for shape in self.shapes(found, RESOURCES):
            sums.update(shape)
        return {"hypervisor_statistics": {"count": len(found), **sums}}
