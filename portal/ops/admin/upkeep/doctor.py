"""Reports of the doctor: findings and repairs, and an examination on request."""

import re
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from portal.ops.admin.base import Readable, context_of
from portal.ops.admin.columns import column, tag
from provisioning.common.errors import NovellaError
from provisioning.doctor.examinations import runs
from provisioning.doctor.examinations.runs import run_for
from provisioning.doctor.models import DoctorRun

TONES = {"error": "bad", "warning": "warn", "note": "off"}
ASKED = {"clock": "scheduled", "command": "manage.py doctor"}


def _result(run: DoctorRun) -> SafeString:
    """Render the result of the run in a word."""
    if left := runs.left(run):
        return tag("bad" if run.errors else "warn", f"{left} wrong")
    return tag("ok", "repaired" if run.repaired else "all is well")


def _requested_by(run: DoctorRun) -> str:
    return ASKED.get(run.trigger, f"by {run.asked_by}") + (" with repair" if run.repair else "")


def _report(run: DoctorRun) -> SafeString:
    """Render the findings, most severe first."""
    if not run.findings:
        return format_html("<p>{}</p>", "Nothing was found.")
    rows = (
        (tag(TONES.get(each["severity"], "off"), each["severity"]), each["check"], _linked(each["subject"]),
         each["sentence"], each["repaired"] or (each["repair"] and f"not yet: {each['repair']}") or "")
        for each in run.findings
    )  # fmt: skip
    return format_html(
        '<table class="findings"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>',
        format_html_join("", '<th scope="col">{}</th>', ((head,) for head in HEADS)),
        format_html_join("", "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>", rows),
    )


@admin.register(DoctorRun)
class DoctorRunAdmin(Readable):
    """The runs, newest first."""

    rules = {"view": "novella:doctor", "examine": "novella:doctor:run"}
    list_display = ("started_at", "result", "errors", "warnings", "notes", "repaired", "asked")
    fields = ("started_at", "finished_at", "asked", "result", "made", "report")
    readonly_fields = ("asked", "result", "made", "report")
    ordering = ("-started_at", "-id")
    change_list_template = "admin/novella/doctor.html"

    result = column("result", _result)
    asked = column("asked for", _requested_by)
    made = column("checks made", lambda run: ", ".join(run.checks))
    report = column("report", _report)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Offer an examination if the policy allows it."""
        more = {"title": "The doctor", "may_examine": self.may(request, "examine")}
        return super().changelist_view(request, {**(extra_context or {}), **more})

    def get_urls(self) -> list[URLPattern]:
        """Add the URL of an examination."""
        examine = self.admin_site.admin_view(never_cache(self.examine))
        return [path("examine/", examine, name="doctor_doctorrun_examine"), *super().get_urls()]

    def examine(self, request: HttpRequest) -> HttpResponse:
        """Examine the cloud, with repairs if ``repair`` is sent, and show the report."""
        if not self.may(request, "examine"):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            run = run_for(context_of(request), repair="repair" in request.POST)
        except NovellaError as error:
            messages.error(request, error.message)
            return HttpResponseRedirect(reverse("admin:doctor_doctorrun_changelist"))
        return HttpResponseRedirect(reverse("admin:doctor_doctorrun_change", args=[run.pk]))


HEADS = ("severity", "check", "of", "the findings", "repair")


def _linked(subject: str) -> str:
    """Return a link to the instance of a finding."""
    instance = re.fullmatch(r"instance ([0-9a-f-]{36})", subject)
    if instance is None:
        return subject
    address = reverse("admin:compute_instance_change", args=[instance[1]])
    return format_html('instance <a href="{}">{}</a>', address, instance[1])
