"""Usage of projects, audits of usage (Compute API reference, "Usage reports", "Server usage audit log"), and measures
of servers, hosts, projects and the cloud, which are Novella's own operations.
"""

import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from django.utils import timezone
from rest_framework.request import Request

from compute_agent.contract.samples import HOST_SERIES
from portal.api.compute.dialect import LIST_PAGES, PAGE_SCHEMAS, ComputeView, last, query, timestamp, timestamp_micro
from portal.api.compute.resources.hypervisors import hypervisor_for
from portal.api.frame import Call, Json, Page, Schema, Values, Version, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute.selectors import usage
from provisioning.compute.selectors.usage import Period, ProjectUsage, ServerUsage
from provisioning.compute.selectors.usage_audit import AuditReport, audit_for
from provisioning.measures import selectors as measures
from provisioning.measures.pools import POOL_SERIES
from provisioning.measures.resolutions import SPANS, Span
from provisioning.measures.selectors import DEFAULT, Measures

PAGED = (2, 40)
_DETAILED = ("1", "True")
"""Values of ``detailed`` that are true: ``1`` as in the reference, ``True`` as openstacksdk sends it."""
_WRONG_MOMENT = "Invalid datetime string: Datetime is in invalid format"
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)(\.\d{1,6})?", re.ASCII)


def listing(version: Version) -> Schema:
    """The query of ``GET /os-simple-tenant-usage``."""
    return query(
        version, {**dict.fromkeys(("start", "end", "detailed"), _TEXT), **(PAGE_SCHEMAS if version >= PAGED else {})}
    )


def one(version: Version) -> Schema:
    """The query of ``GET /os-simple-tenant-usage/{project}``."""
    return query(version, {**dict.fromkeys(("start", "end"), _TEXT), **(PAGE_SCHEMAS if version >= PAGED else {})})


_TEXT: Schema = {"type": "string"}


class UsageBase(ComputeView):
    """Base of the views of all projects and of one project."""

    def period(self, query: dict[str, list[str]]) -> Period:
        """Return the requested period, which ends now at the latest. An empty ``start`` or ``end`` means now.

        Raises InvalidInputError.
        """
        now = timezone.now()
        start, stop = (_moment(query.get(name, [""])[0], now) for name in ("start", "end"))
        if start > stop or (start == stop and "start" in query and "end" in query):
            raise InvalidInputError(
                "Invalid start time. The start time cannot occur after the end time.", field="start"
            )
        return Period(start, min(stop, now), now)

    def page(self, request: Request) -> Page | None:
        """Return the requested page; None before 2.40, which introduced paging."""
        return LIST_PAGES.read(request) if self.microversion >= PAGED else None

    def shape(self, found: ProjectUsage, period: Period, *, detailed: bool) -> Json:
        shape: Json = {
            "tenant_id": found.project_id.hex,
            "start": timestamp_micro(period.start),
            "stop": timestamp_micro(period.stop),
            "total_hours": found.hours,
            "total_vcpus_usage": found.vcpus,
            "total_memory_mb_usage": found.memory_mb,
            "total_local_gb_usage": found.local_gb,
        }
        if detailed:
            shape["server_usages"] = [_server(server) for server in found.servers]
        return shape


class UsagesView(UsageBase):
    """``GET /os-simple-tenant-usage``."""

    rules = {"GET": "os_compute_api:os-simple-tenant-usage:list"}
    queries = {"GET": listing}

    def get(self, request: Request) -> Json:
        """List the projects with usage in the period; ``detailed=1`` includes their servers."""
        query = self.checked_query()
        period, page = self.period(query), self.page(request)
        detailed = query.get("detailed", [""])[0] in _DETAILED
        found = usage.usage_for(
            self.context,
            period,
            detailed=detailed,
            limit=page.limit if page else None,
            marker=page.marker if page else None,
        )
        shapes = [self.shape(project, period, detailed=detailed) for project in found.projects]
        answer: Json = {"tenant_usages": shapes}
        following = (
            LIST_PAGES.links(request, page, found.counted, f"{self.base}/os-simple-tenant-usage") if page else []
        )
        if following:
            answer["tenant_usages_links"] = following
        return answer


class UsageView(UsageBase):
    """``GET /os-simple-tenant-usage/{project}``."""

    rules = {"GET": "os_compute_api:os-simple-tenant-usage:show"}
    queries = {"GET": one}

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self.kwargs["project_id"]}

    def get(self, request: Request, project_id: str) -> Json:
        """Show the usage of one project with its servers; empty for a project without usage or an unknown project."""
        period, page, key = self.period(self.checked_query()), self.page(request), read_id(project_id)
        if key is None:
            return {"tenant_usage": {}}
        found = usage.usage_for(
            self.context,
            period,
            project_id=key,
            detailed=True,
            limit=page.limit if page else None,
            marker=page.marker if page else None,
        )
        shapes = [self.shape(project, period, detailed=True) for project in found.projects]
        answer: Json = {"tenant_usage": shapes[0] if shapes else {}}
        url = f"{self.base}/os-simple-tenant-usage/{project_id}"
        following = LIST_PAGES.links(request, page, found.counted, url) if page else []
        if following:
            answer["tenant_usage_links"] = following
        return answer


def _server(server: ServerUsage) -> Json:
    return {
        "instance_id": str(server.id),
        "name": server.name,
        "tenant_id": server.project_id.hex,
        "flavor": server.flavor,
        "hours": server.hours,
        "vcpus": server.vcpus,
        "memory_mb": server.memory_mb,
        "local_gb": server.local_gb,
        "state": server.state,
        "started_at": timestamp_micro(server.started_at),
        "ended_at": timestamp_micro(server.ended_at),
        "uptime": server.uptime,
    }


def _moment(text: str, now: datetime) -> datetime:
    """Read a time in UTC: ``2026-01-31T12:00:00`` with or without fractions, or with a blank instead of ``T`` and with
    fractions. An empty text means now.
    """
    if not text:
        return now
    found = _MOMENT.fullmatch(text)
    if found is None or (found[2] == " " and not found[4]):
        raise InvalidInputError(_WRONG_MOMENT, field="start")
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[3]}{(found[4] or '.0').ljust(7, '0')}").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInputError(_WRONG_MOMENT, field="start") from error


_FORMS = {True: "%Y-%m-%d %H:%M:%S.%f", False: "%Y-%m-%d %H:%M:%S"}


def _audit(view: ComputeView, report: AuditReport) -> Json:
    """One period: totals and a row for each host."""
    done, errors = report.names("DONE"), sum(row.errors for row in report.rows)
    many = "ALL" if len(done) == len(report.hosts) else f"{len(done)} of {len(report.hosts)}"
    return {
        "period_beginning": _audit_time(report.period.beginning),
        "period_ending": _audit_time(report.period.ending),
        "num_hosts": len(report.hosts),
        "num_hosts_done": len(done),
        "num_hosts_running": len(report.names("RUNNING")),
        "num_hosts_not_run": len(report.not_run),
        "hosts_not_run": report.not_run,
        "total_instances": sum(row.task_items for row in report.rows),
        "total_errors": errors,
        "overall_status": f"{many} hosts done. {errors} errors.",
        "log": {
            row.host: {
                "state": row.state,
                "instances": row.task_items,
                "errors": row.errors,
                "message": row.message,
            }
            for row in report.rows
        },
    }


def _audit_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _before(context: RequestContext, before: str) -> AuditReport:
    try:
        moment = datetime.strptime(before, _FORMS["." in before]).replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInputError(f"Invalid timestamp for date {before[:64]}", field="before") from error
    return audit_for(context, moment, _SHOW)


_LIST, _SHOW = (f"os_compute_api:os-instance-usage-audit-log:{verb}" for verb in ("list", "show"))
AUDITS = parts(
    ComputeView,
    "os-instance_usage_audit_log",
    {
        "GET": Call(
            lambda context: audit_for(context, timezone.now(), _LIST),
            _LIST,
            "Show the audits of the last complete period.",
            name="instance_usage_audit_logs",
            shape=_audit,
        ),
        "GET /{before}": Call(
            _before,
            _SHOW,
            "Show the audits of the last complete period before a time such as ``2026-01-31 12:00:00``.",
            name="instance_usage_audit_log",
            shape=_audit,
        ),
    },
)


def measures_query(version: Version) -> Schema:
    """Return the schema of the queries, equal at every microversion."""
    return query(
        version,
        {
            "span": {"type": "string", "enum": list(SPANS)},
            "series": {"type": "string", "enum": [*HOST_SERIES, *POOL_SERIES]},
            "points": {"type": "string", "pattern": r"^[1-9][0-9]{0,3}\Z"},
        },
    )


def measures_shape(found: Measures, span: Span, requested: Sequence[str]) -> Json:
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


def _requested_measures(view: ComputeView) -> Values:
    """Return the requested span and the maximum number of points."""
    query = view.checked_query()
    points = last(query, "points")
    return {"span": SPANS[last(query, "span") or DEFAULT.name], "points": int(points) if points else None}


def _measures_shown(view: ComputeView, found: Measures) -> Json:
    return measures_shape(found, _requested_measures(view)["span"], view.checked_query().get("series", []))


def _measured_host(view: ComputeView, hypervisor_id: str) -> tuple[uuid.UUID]:
    """Return the id of a hypervisor; a UUID is accepted at every microversion."""
    found = read_id(hypervisor_id)
    return ((hypervisor_for(view, hypervisor_id) if found is None else measures.host_with_id(found)).id,)


def _of_project(context: RequestContext, *, span: Span, points: int | None) -> Measures:
    if context.project_id is None:
        raise NotFoundError("The token is not scoped to a project.")
    return measures.of_project(context.project_id, span, points)


_measures = partial(Call, name="measures", shape=_measures_shown, query=measures_query, more=_requested_measures)
MEASURES = parts(
    ComputeView,
    "os-hypervisors/{hypervisor_id}/novella-measures",
    {"GET": _measures(measures.of_host, "novella:hosts:measures", "Show what a host and its servers use.")},
    arguments=_measured_host,
) | parts(
    ComputeView,
    "",
    {
        "GET servers/{server_id}/novella-measures": _measures(
            measures.measures_for, "novella:servers:measures", "Show what a server of the project uses."
        ),
        "GET novella-measures": _measures(
            _of_project, "novella:measures", "Show what the servers of the token's project use together."
        ),
        "GET novella-measures/cloud": _measures(
            lambda context, **kwargs: measures.of_cloud(**kwargs),
            "novella:hosts:measures",
            "Show the usage of all hosts together.",
        ),
        "GET novella-measures/pools/{pool_id}": _measures(
            lambda context, pool_id, **kwargs: measures.of_pool(measures.pool_with_id(pool_id).id, **kwargs),
            "novella:hosts:measures",
            "Show what a storage pool holds.",
        ),
    },
)
