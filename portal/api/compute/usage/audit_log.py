"""Audits of usage (Compute API reference, "Server usage audit log")."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from provisioning.common.errors import InvalidInputError
from provisioning.compute.selectors.usage_audit import AuditReport, audit_for

_FORMS = {True: "%Y-%m-%d %H:%M:%S.%f", False: "%Y-%m-%d %H:%M:%S"}


class UsageAuditsView(ComputeView):
    """``GET /os-instance_usage_audit_log``."""

    rules = {"GET": "os_compute_api:os-instance-usage-audit-log:list"}

    def get(self, request: Request) -> Response:
        """Show the audits of the last complete period."""
        found = audit_for(self.context, timezone.now(), self.rules["GET"])
        return Response({"instance_usage_audit_logs": shape(found)})


class UsageAuditView(ComputeView):
    """``GET /os-instance_usage_audit_log/{before}``."""

    rules = {"GET": "os_compute_api:os-instance-usage-audit-log:show"}

    def get(self, request: Request, before: str) -> Response:
        """Show the audits of the last complete period before a time such as ``2026-01-31 12:00:00``."""
        try:
            moment = datetime.strptime(before, _FORMS["." in before]).replace(tzinfo=UTC)
        except ValueError as error:
            raise InvalidInputError(f"Invalid timestamp for date {before[:64]}", field="before") from error
        return Response({"instance_usage_audit_log": shape(audit_for(self.context, moment, self.rules["GET"]))})


def shape(report: AuditReport) -> dict[str, Any]:
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
