"""Usage of servers, hosts, projects and the cloud."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from compute_agent.contract.samples import HOST_SERIES
from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import Schema, Version, last, query
from portal.api.compute.dialect.timestamps import timestamp
from portal.api.compute.resources.hypervisors import hypervisor_for
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
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


def shape(found: Measures, span: Span, requested: Sequence[str]) -> dict[str, Any]:
    """Return the representation of measures; a missing point is null."""
    return {
        "span": span.name,
        "start": timestamp(datetime.fromtimestamp(found.start, UTC)),
        "step": found.step,
        "series": {
            name: {"average": _rounded(series.means), "maximum": _rounded(series.maximums)}
            for name, series in found.series.items()
            if not requested or name in requested
        },
    }


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 3) for value in values]


def _asked(view: ComputeView) -> dict[str, Any]:
    """Return the requested span and the maximum number of points."""
    query = view.checked_query()
    points = last(query, "points")
    return {"span": SPANS[last(query, "span") or DEFAULT.name], "points": int(points) if points else None}


def _shown(view: ComputeView, found: Measures) -> dict[str, Any]:
    return shape(found, _asked(view)["span"], view.checked_query().get("series", []))


def _host(view: ComputeView, hypervisor_id: str) -> tuple[uuid.UUID]:
    """Return the id of a hypervisor; a UUID is accepted at every microversion."""
    found = read_id(hypervisor_id)
    return ((hypervisor_for(view, hypervisor_id) if found is None else selectors.host_with_id(found)).id,)


def _of_project(context: RequestContext, *, span: Span, points: int | None) -> Measures:
    if context.project_id is None:
        raise NotFoundError("The token is for no project.")
    return selectors.of_project(context.project_id, span, points)


_measures = partial(Call, name="measures", shape=_shown, query=listing, more=_asked)
PARTS = parts(
    ComputeView,
    "os-hypervisors/{hypervisor_id}/novella-measures",
    {"GET": _measures(selectors.of_host, "novella:hosts:measures", "Show what a host and its servers use.")},
    arguments=_host,
) | parts(
    ComputeView,
    "",
    {
        "GET servers/{server_id}/novella-measures": _measures(
            selectors.measures_for, "novella:servers:measures", "Show what a server of the project uses."
        ),
        "GET novella-measures": _measures(
            _of_project, "novella:measures", "Show what the servers of the token's project use together."
        ),
        "GET novella-measures/cloud": _measures(
            lambda context, **kwargs: selectors.of_cloud(**kwargs),
            "novella:hosts:measures",
            "Show what all hosts use together.",
        ),
        "GET novella-measures/pools/{pool_id}": _measures(
            lambda context, pool_id, **kwargs: selectors.of_pool(selectors.pool_with_id(pool_id).id, **kwargs),
            "novella:hosts:measures",
            "Show what a storage pool holds.",
        ),
    },
)
