"""Usage of servers, hosts, projects and the cloud."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from compute_agent.contract.samples import HOST_SERIES
from portal.api.compute.base import ComputeView
from portal.api.compute.hypervisors import hypervisor_for
from portal.api.compute.schemas import Schema, Version, last, query
from portal.api.compute.timestamps import timestamp
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.measures import selectors
from provisioning.measures.pools import POOL_SERIES
from provisioning.measures.resolutions import SPANS, Span
from provisioning.measures.selectors import DEFAULT, Measures


def listing(version: Version) -> Schema:
    """Return the schema of the queries, equal at every microversion."""
    return query(
        version,
        {
            "span": {"type": "string", "enum": list(SPANS)},
            "series": {"type": "string", "enum": [*HOST_SERIES, *POOL_SERIES]},
            "points": {"type": "string", "pattern": r"^[1-9][0-9]{0,3}\Z"},
        },
    )


class MeasuresView(ComputeView):
    """Reads the span, the most points and the series from the query, and answers with the measures."""

    queries: ClassVar = {"GET": listing}

    def answer(self, read: Callable[[Span, int | None], Measures]) -> Response:
        """Return the measures that ``read`` finds for the span and the most points of the query, and its series."""
        asked = self.checked_query()
        span, points = SPANS[last(asked, "span") or DEFAULT.name], last(asked, "points")
        found = read(span, int(points) if points else None)
        return Response({"measures": shape(found, span, asked.get("series", []))})


def shape(found: Measures, span: Span, wanted: Sequence[str]) -> dict[str, Any]:
    """Return the representation of measures; a missing point is null."""
    return {
        "span": span.name,
        "start": timestamp(datetime.fromtimestamp(found.start, UTC)),
        "step": found.step,
        "series": {
            name: {"average": _rounded(series.means), "maximum": _rounded(series.maximums)}
            for name, series in found.series.items()
            if not wanted or name in wanted
        },
    }


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 3) for value in values]


class ServerMeasuresView(MeasuresView):
    """``GET /servers/{id}/novella-measures``."""

    rules = {"GET": "novella:servers:measures"}

    def get(self, request: Request, server_id: str) -> Response:
        """Show what a server of the project uses."""
        return self.answer(lambda *query: selectors.measures_for(self.context, server_id, *query))


class HypervisorMeasuresView(MeasuresView):
    """``GET /os-hypervisors/{id}/novella-measures``; a UUID is accepted at every microversion."""

    rules = {"GET": "novella:hosts:measures"}

    def get(self, request: Request, hypervisor_id: str) -> Response:
        """Show what a host and its servers use."""
        found = read_id(hypervisor_id)
        host = hypervisor_for(self, hypervisor_id) if found is None else selectors.host_with_id(found)
        return self.answer(lambda *query: selectors.of_host(host.id, *query))


class PoolMeasuresView(MeasuresView):
    """``GET /novella-measures/pools/{id}``."""

    rules = {"GET": "novella:hosts:measures"}

    def get(self, request: Request, pool_id: str) -> Response:
        """Show what a storage pool holds."""
        pool = selectors.pool_with_id(pool_id)
        return self.answer(lambda *query: selectors.of_pool(pool.id, *query))


class ProjectMeasuresView(MeasuresView):
    """``GET /novella-measures``."""

    rules = {"GET": "novella:measures"}

    def get(self, request: Request) -> Response:
        """Show what the servers of the token's project use together."""
        project_id = self.context.project_id
        if project_id is None:
            raise NotFoundError("The token is for no project.")
        return self.answer(lambda *query: selectors.of_project(project_id, *query))


class CloudMeasuresView(MeasuresView):
    """``GET /novella-measures/cloud``."""

    rules = {"GET": "novella:hosts:measures"}

    def get(self, request: Request) -> Response:
        """Show what all hosts use together."""
        return self.answer(selectors.of_cloud)
