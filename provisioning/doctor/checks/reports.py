"""Reports of hosts that could not be processed."""

from collections.abc import Iterator

from provisioning.common.database.prepared import Prepared
from provisioning.doctor.finding import Finding, Repair, check
from provisioning.hosts import rejected
from provisioning.hosts.models import RejectedReport

REJECTED = Prepared(lambda: RejectedReport.objects.select_related("host").order_by("host__name", "seq"))


@check("rejected_reports", at_once=True)
def rejected_reports() -> Iterator[Finding]:
    """Find reports whose processing failed; each is a bug of Novella, and the log has its traceback."""
    for row in REJECTED():
        became = "given up" if row.given_up_at else f"retried at {row.due_at:%H:%M:%S}"
        sentence = (
            f"Its report {row.seq} ({row.kind}) about {row.subject_kind} {row.subject_id} could not be processed"
            f" ({row.error}); after {row.tries} attempts it is {became}."
        )
        yield Finding("error", f"host {row.host.name}", sentence, "Retry it.", _try_now(row), row.pk)


def _try_now(rejected_report: RejectedReport) -> Repair:
    def repair() -> str | None:
        return "It is retried within seconds." if rejected.try_now([rejected_report.pk]) else None

    return repair
