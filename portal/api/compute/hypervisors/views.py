"""Hypervisors (Compute API reference, "Hypervisors")."""

from collections import Counter
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import OLDEST
from portal.api.common.paging import next_links, read_page
from portal.api.compute.base import ComputeView
from portal.api.compute.hypervisors import schemas as hypervisor_schemas
from portal.api.compute.hypervisors.schemas import BY_UUID, PAGING
from portal.api.compute.hypervisors.shapes import (
    NO_RESOURCES,
    brief,
    detailed,
    hostname,
    ident,
    resources,
    uptime,
    with_servers,
)
from portal.api.compute.schemas import boolean, last
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.compute.selectors.hosts import servers_on, workloads
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import hosts_for


class HypervisorBase(ComputeView):
    """Base of the hypervisor views."""

    def matching(self, pattern: str) -> list[Host]:
        """Return the hypervisors whose names contain the pattern. Raises NotFoundError if none match."""
        found = [host for host in hosts_for(self.context) if pattern in hostname(host)]
        if not found:
            raise NotFoundError(f"No hypervisor matching '{pattern[:255]}' could be found.")
        return found

    def one(self, text: str) -> Host:
        """Return the hypervisor with this id. Raises NotFoundError, and from 2.53 on InvalidInputError for an invalid
        UUID.
        """
        if self.microversion >= BY_UUID and read_id(text) is None:
            raise InvalidInputError(f"Invalid uuid {text[:64]}", field="hypervisor_id")
        wanted = str(read_id(text) or text)
        for host in hosts_for(self.context):
            if str(ident(host, self.microversion)) == wanted:
                return host
        raise NotFoundError(f"Hypervisor with ID '{text[:64]}' could not be found.")

    def shapes(self, found: list[Host], *, detail: bool, servers: bool) -> list[dict[str, Any]]:
        """Return the representations of hypervisors, with at most two queries."""
        version = self.microversion
        tasks = workloads() if detail and version < NO_RESOURCES else {}
        inside = servers_on([host.id for host in found]) if servers else {}
        written = [detailed(host, version, tasks.get(host.id, 0)) if detail else brief(host, version) for host in found]
        if not servers:
            return written
        return [with_servers(shape, host, inside, version) for shape, host in zip(written, found, strict=True)]


class HypervisorsView(HypervisorBase):
    """``GET /os-hypervisors``."""

    rules = {"GET": "os_compute_api:os-hypervisors:list"}
    queries = {"GET": hypervisor_schemas.listing}
    detail: ClassVar[bool] = False

    def get(self, request: Request) -> Response:
        """List the hypervisors by name."""
        query = self.checked_query()
        pattern = last(query, "hypervisor_hostname_pattern") if self.microversion >= BY_UUID else None
        servers = self.microversion >= BY_UUID and boolean(last(query, "with_servers"))
        if pattern is not None:
            if "limit" in query or "marker" in query:
                raise InvalidInputError(
                    "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.",
                    field="hypervisor_hostname_pattern",
                )
            return self._answer(self.matching(pattern), servers=servers)
        if self.microversion < PAGING:
            return self._answer(hosts_for(self.context), servers=False)
        page = read_page(request, zero_is_none=True)
        found = self._behind(page.marker)[: page.limit]
        url = f"{self.base}/os-hypervisors{'/detail' if self.detail else ''}"
        links = next_links(request, page, [ident(host, self.microversion) for host in found], url)
        return self._answer(found, servers=servers, links=links)

    def _behind(self, marker: str | None) -> list[Host]:
        found = hosts_for(self.context)
        if marker is None:
            return found
        wanted = str(read_id(marker) or marker)
        for index, host in enumerate(found):
            if str(ident(host, self.microversion)) == wanted:
                return found[index + 1 :]
        raise InvalidInputError(f"marker [{marker[:64]}] not found", field="marker")

    def _answer(self, found: list[Host], *, servers: bool, links: list[dict[str, str]] | None = None) -> Response:
        body: dict[str, Any] = {"hypervisors": self.shapes(found, detail=self.detail, servers=servers)}
        if links:
            body["hypervisors_links"] = links
        return Response(body)


class HypervisorsDetailView(HypervisorsView):
    """``GET /os-hypervisors/detail``."""

    rules = {"GET": "os_compute_api:os-hypervisors:list-detail"}
    detail = True


class HypervisorView(HypervisorBase):
    """``GET /os-hypervisors/{id}``."""

    rules = {"GET": "os_compute_api:os-hypervisors:show"}
    queries = {"GET": hypervisor_schemas.showing}

    def get(self, request: Request, hypervisor_id: str) -> Response:
        query = self.checked_query()
        servers = self.microversion >= BY_UUID and boolean(last(query, "with_servers"))
        [shape] = self.shapes([self.one(hypervisor_id)], detail=True, servers=servers)
        return Response({"hypervisor": shape})


class HypervisorUptimeView(HypervisorBase):
    """``GET /os-hypervisors/{id}/uptime``, up to 2.87."""

    rules = {"GET": "os_compute_api:os-hypervisors:uptime"}
    versions = {"GET": (OLDEST, (2, 87))}

    def get(self, request: Request, hypervisor_id: str) -> Response:
        """Show the host's uptime from the last audit of its agent."""
        host = self.one(hypervisor_id)
        said = uptime(host)
        if said is None:
            raise InvalidInputError(f"Compute service of {host.name} is unavailable at this time.")
        return Response({"hypervisor": brief(host, self.microversion) | {"uptime": said}})


class HypervisorSearchView(HypervisorBase):
    """``GET /os-hypervisors/{pattern}/search``, up to 2.52."""

    rules = {"GET": "os_compute_api:os-hypervisors:search"}
    versions = {"GET": (OLDEST, (2, 52))}
    servers: ClassVar[bool] = False

    def get(self, request: Request, pattern: str) -> Response:
        """List the hypervisors whose names contain the pattern."""
        found = self.matching(pattern)
        return Response({"hypervisors": self.shapes(found, detail=False, servers=self.servers)})


class HypervisorServersView(HypervisorSearchView):
    """``GET /os-hypervisors/{pattern}/servers``, up to 2.52."""

    rules = {"GET": "os_compute_api:os-hypervisors:servers"}
    servers = True


class HypervisorStatisticsView(HypervisorBase):
    """``GET /os-hypervisors/statistics``, up to 2.87."""

    rules = {"GET": "os_compute_api:os-hypervisors:statistics"}
    versions = {"GET": (OLDEST, (2, 87))}

    def get(self, request: Request) -> Response:
        """Show the sums over all enabled hypervisors."""
        found = [host for host in hosts_for(self.context) if host.enabled]
        tasks = workloads()
        sums: Counter[str] = Counter(dict.fromkeys(resources(Host(), 0), 0))
        for host in found:
            sums.update(resources(host, tasks.get(host.id, 0)))
        return Response({"hypervisor_statistics": {"count": len(found), **sums}})
