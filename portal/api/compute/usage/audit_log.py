"""Audits of usage (Compute API reference, "Server usage audit log")."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from portal.api.compute.base import ComputeView
from portal.api.frame.parts import Call, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.selectors.usage_audit import AuditReport, audit_for

_FORMS = {True: "%Y-%m-%d %H:%M:%S.%f", False: "%Y-%m-%d %H:%M:%S"}


def shape(view: ComputeView, report: AuditReport) -> dict[str, Any]:
    """One period: totals and a row for each host."""
    done, errors = report.names("DONE"), sum(row.errors for row in report.rows)
    many = "ALL" if len(done) == len(report.hosts) else f"{len(done)} of {len(report.hosts)}"
    return {
        "period_beginning": _text(report.period.beginning),
        "period_ending": _text(report.period.ending),
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


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _before(context: RequestContext, before: str) -> AuditReport:
    try:
        moment = datetime.strptime(before, _FORMS["." in before]).replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInputError(f"Invalid timestamp for date {before[:64]}", field="before") from error
    return audit_for(context, moment, _SHOW)


_LIST, _SHOW = (f"os_compute_api:os-instance-usage-audit-log:{verb}" for verb in ("list", "show"))
PARTS = parts(
    ComputeView,
    "os-instance_usage_audit_log",
    {
        "GET": Call(
            lambda context: audit_for(context, timezone.now(), _LIST),
            _LIST,
            "Show the audits of the last complete period.",
            name="instance_usage_audit_logs",
            shape=shape,
        ),
        "GET /{before}": Call(
            _before,
            _SHOW,
            "Show the audits of the last complete period before a time such as ``2026-01-31 12:00:00``.",
            name="instance_usage_audit_log",
            shape=shape,
        ),
    },
)
