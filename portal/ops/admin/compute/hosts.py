"""Hosts: capacity and usage, state, and enrolment of new hosts."""

import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from portal.common.http.public_url import public_url
from portal.common.statuses import MAINTENANCE, WARNS, host_status, is_claimed_twice
from portal.ops.admin.base import ModelForm, Written, context_of, row_action
from portal.ops.admin.columns import column, meter, rows_link, tag
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute.models import Instance
from provisioning.compute.selectors.hosts import state_of
from provisioning.compute.services.hosts import change_host, disable_host, enable_host, forget_host, update_host
from provisioning.hosts import credentials, enrolment
from provisioning.hosts.models import Host, HostCertificate
from provisioning.scheduler import HostState
from provisioning.volumes.models import Attachment
from provisioning.volumes.services import detach_from_dead_host

MEASURED = (
    "name", "id", "state", "last_seen_at", "clock", "agent_version", "contract_version",
    "hypervisor_type", "hypervisor_version", "hypervisor_hostname", "architecture", "host_ip", "forced_down",
    "uptime", "vcpus_total", "memory_mb_total",
    "disk_gb_total", "memory_mb_used", "disk_gb_used", "running_vms", "vcpus_allocated", "memory_mb_allocated",
    "disk_gb_allocated", "instances_allocated", "created_at", "second_machine", "credential_wanted_at",
    "offers", "says", "has_repaired", "certificates", "pools_here", "attached_here", "guests_here",
)  # fmt: skip
CHANGED = (
    "availability_zone", "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio", "reserved_memory_mb",
    "reserved_disk_gb", "custom_traits",
)  # fmt: skip
SOON = timedelta(days=90)
"""A certificate that expires within this time is marked as ending soon: certificates are valid for two years and
renewed each month.
"""
LIFETIMES = ((3600, "1 hour"), (86_400, "1 day"), (604_800, "7 days"))


class WordsField(forms.CharField):
    """A field for a list of words separated by spaces or commas."""

    def prepare_value(self, value: Any) -> Any:
        return " ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return (
            value
            if isinstance(value, list)
            else re.split(r"[\s,]+", text)
            if (text := str(value or "").strip())
            else []
        )

    def has_changed(self, initial: Any, data: Any) -> bool:
        return sorted(initial or []) != sorted(self.to_python(data))


class JoinForm(forms.Form):
    """The host and lifetime of a join token."""

    host_name = forms.CharField(
        max_length=255,
        required=False,
        help_text="Only a host of this name can use the token. Leave it empty for any host.",
    )
    lifetime = forms.TypedChoiceField(choices=LIFETIMES, coerce=int, initial=3600)


class HostForm(ModelForm):
    """A host's change form, with the reason for disabling it."""

    custom_traits = WordsField(
        required=False,
        help_text="Custom names, separated by spaces, that a flavor or an image can require"
        " (trait:CUSTOM_GOLD=required).",
    )

    class Meta:
        model = Host
        fields = ("enabled", "disabled_reason", *CHANGED)


def _state(host: Host) -> SafeString:
    """Render whether the host is up and enabled, with the reason if it is not."""
    status = host_status(host, timezone.now())
    why = {MAINTENANCE: host.disabled_reason, WARNS: next(iter(host.warnings), "")}.get(status, "")
    return tag(status.tone, status.word, why)


def _lines(texts: Iterable[str]) -> SafeString:
    return format_html_join(SafeString("<br>"), "{}", ((text,) for text in texts))


def _repairs(host: Host) -> SafeString:
    """Render the processes that were restarted, newest first."""
    return _lines(
        f"{datetime.fromtimestamp(each['at'], UTC):%Y-%m-%d %H:%M:%S} {each['what']}" for each in reversed(host.repairs)
    )


def _certificate(host: Host) -> str | SafeString:
    """Render the expiry of the host's certificate for sharing volumes."""
    kept = HostCertificate.objects.filter(host=host).first()
    if kept is None:
        return "none"
    left = kept.ends_at - timezone.now()
    words = f"until {kept.ends_at:%Y-%m-%d}, renewed {kept.issued_at:%Y-%m-%d %H:%M:%S}"
    if left > SOON:
        return words
    tone, word = ("warn", "Ends soon") if left > timedelta(0) else ("bad", "Has ended")
    return format_html("{} {}", tag(tone, word), words)


def _clock(host: Host) -> str:
    """Format the difference of its clock from the portal's."""
    if host.clock_difference is None:
        return "unknown"
    return f"{abs(host.clock_difference):.2f} s {'ahead' if host.clock_difference > 0 else 'behind'}"


def _second_machine(host: Host) -> str:
    """Return the address at which a copy of this host's state directory was recently refused."""
    if not is_claimed_twice(host, timezone.now()):
        return ""
    return f"{host.second_machine_address or 'unknown address'}, refused at {host.second_machine_at:%Y-%m-%d %H:%M:%S}"


def _limits(host: Host) -> HostState:
    return state_of(host, timezone.now())


def _meter(used: float, limit: float, unit: str = "") -> SafeString:
    return meter(used, limit, f"{used} / {limit} {unit}".rstrip())


@admin.register(Host)
class HostAdmin(Written):
    rules = {
        "view": "os_compute_api:os-hypervisors:list-detail",
        "change": "os_compute_api:os-services:update",
        "enable": "os_compute_api:os-services:update",
        "disable": "os_compute_api:os-services:update",
        "force_down": "os_compute_api:os-services:update",
        "clear_forced_down": "os_compute_api:os-services:update",
        "forget": "os_compute_api:os-services:delete",
        "give_back": "volume_extension:volume_admin_actions:force_detach",
        "join": "novella:hosts:join",
        "renew": "novella:hosts:join",
    }
    form = HostForm
    list_display = (
        "name",
        "state",
        "availability_zone",
        "vcpus",
        "memory",
        "disk",
        "instances_allocated",
        "last_seen_at",
    )
    list_filter = ("enabled", "availability_zone", "hypervisor_type")
    search_fields = ("name",)
    readonly_fields = MEASURED
    actions = ("enable", "disable", "force_down", "clear_forced_down", "give_back", "renew", "forget")
    change_list_template = "admin/novella/hosts.html"
    fieldsets = (
        (None, {"fields": ("name", "state", "enabled", "disabled_reason", "forced_down", "availability_zone")}),
        ("Capacity", {"fields": (*CHANGED[1:-1], "vcpus_total", "memory_mb_total", "disk_gb_total")}),
        (
            "In use",
            {"fields": ("guests_here", "vcpus_allocated", "memory_mb_allocated", "disk_gb_allocated",
                        "memory_mb_used", "disk_gb_used", "running_vms")},
        ),
        ("Hardware for guests", {"fields": ("offers", "custom_traits")}),
        ("Volumes", {"fields": ("pools_here", "attached_here", "certificates")}),
        (
            "Agent",
            {"fields": ("id", "last_seen_at", "clock", "agent_version", "contract_version",
                        "hypervisor_type", "hypervisor_version", "hypervisor_hostname", "architecture", "host_ip",
                        "uptime", "says", "has_repaired", "second_machine", "credential_wanted_at", "created_at")},
        ),
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: hosts enrol with a join token."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False: hosts are removed by an action, which also removes dependent records."""
        return False

    def save_model(self, request: HttpRequest, obj: Host, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write the changed fields through the services."""
        context, changed = context_of(request), set(form.changed_data)
        values = {name: form.cleaned_data[name] for name in CHANGED if name in changed}
        if values:
            update_host(context, obj.id, values)
        if changed & {"enabled", "disabled_reason"}:
            if form.cleaned_data["enabled"]:
                enable_host(context, obj.id)
            else:
                disable_host(context, obj.id, form.cleaned_data["disabled_reason"])

    @row_action("Enable: schedule new servers there", "Hosts enabled")
    def enable(self, context: RequestContext, host: Host) -> None:
        enable_host(context, host.id)

    @row_action("Disable: schedule no new servers there", "Hosts disabled")
    def disable(self, context: RequestContext, host: Host) -> None:
        """Disable the host for the scheduler; the reason can be edited on the host's page."""
        disable_host(context, host.id, f"Disabled by {context.user_name}.")

    @row_action(
        "Force down: it is switched off, do not wait for its report",
        "Hosts forced down",
        question="Are these hosts powered off or isolated?",
    )
    def force_down(self, context: RequestContext, host: Host) -> None:
        change_host(context, host.id, forced_down=True)

    @row_action("Undo force down: it is up again when its agent answers", "Hosts no longer forced down")
    def clear_forced_down(self, context: RequestContext, host: Host) -> None:
        change_host(context, host.id, forced_down=False)

    @row_action(
        "Release volumes: the host is forced down, and other hosts need its servers' volumes",
        "Hosts whose volumes were released",
        question="Release every volume of these hosts? Their servers lose them.",
    )
    def give_back(self, context: RequestContext, host: Host) -> None:
        detach_from_dead_host(context, host.id)

    @row_action("New credential: request one from the agent", "Hosts asked for new credentials")
    def renew(self, context: RequestContext, host: Host) -> None:
        """Request a new credential; the old one remains valid until the agent uses the new one."""
        credentials.renew([host.name])

    @row_action(
        "Forget: remove a host that no longer exists",
        "Hosts forgotten",
        question="Forget these hosts, with their remaining records?",
    )
    def forget(self, context: RequestContext, host: Host) -> None:
        """Remove a host without servers; its agent needs a new join token."""
        forget_host(context, host.id)

    state = column("state", _state)
    offers = column(
        "traits", lambda host: " ".join(host.traits) or "none, or its agent is older and does not report them"
    )
    says = column("the warnings of the host", lambda host: _lines(host.warnings))
    has_repaired = column("repaired automatically", _repairs)
    certificates = column("certificates for volumes", _certificate)
    pools_here = column("storage pools", lambda host: list(host.pools.order_by("name", "id")), link=True)
    attached_here = column(
        "volumes of its servers",
        lambda host: rows_link(Attachment, "host__id__exact", host.pk, host.attachments.count()),
    )
    guests_here = column(
        "its instances", lambda host: rows_link(Instance, "host__id__exact", host.pk, host.instances_allocated)
    )
    clock = column("clock", _clock)
    second_machine = column("second machine", _second_machine)
    vcpus = column(
        "virtual CPUs",
        lambda host: _meter(host.vcpus_allocated, _limits(host).vcpus_limit),
        ordering="vcpus_allocated",
    )
    memory = column(
        "memory",
        lambda host: _meter(
            round(host.memory_mb_allocated / 1024, 1), round(_limits(host).memory_mb_limit / 1024, 1), "GiB"
        ),
        ordering="memory_mb_allocated",
    )
    disk = column(
        "disk",
        lambda host: _meter(host.disk_gb_allocated, _limits(host).disk_gb_limit, "GiB"),
        ordering="disk_gb_allocated",
    )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the link for a new host if the policy allows it."""
        return super().changelist_view(request, {**(extra_context or {}), "may_join": self.may(request, "join")})

    def get_urls(self) -> list[URLPattern]:
        """Add the URL of the page for a new host."""
        join = self.admin_site.admin_view(never_cache(self.join))
        return [path("join/", join, name="hosts_host_join"), *super().get_urls()]

    def join(self, request: HttpRequest) -> HttpResponse:
        """Create a join token and show it once, with the command to run on the new host."""
        if not self.may(request, "join"):
            raise PermissionDenied
        form, token = JoinForm(request.POST or None), ""
        if request.method == "POST" and form.is_valid():
            try:
                token = enrolment.create_join_token(form.cleaned_data["host_name"], form.cleaned_data["lifetime"])
            except NovellaError as error:
                messages.error(request, error.message)
        context = {
            **self.admin_site.each_context(request),
            "title": "Join a host",
            "opts": self.model._meta,
            "form": form,
            "token": token,
            "host_name": form.cleaned_data["host_name"] if token else "",
            "portal": public_url(request),
            "unused": uuid.uuid4().hex[:6],
        }
        return TemplateResponse(request, "admin/novella/join.html", context)
