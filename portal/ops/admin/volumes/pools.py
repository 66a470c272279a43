"""Storage pools: usage, hosts and state, and the placement of a new volume."""

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from portal.common.statuses import POOL_STATUS
from portal.ops.admin.base import ModelForm, Written, context_of, row_action
from portal.ops.admin.columns import column, link_to, meter, pairs, rows_link, tag
from portal.ops.admin.volumes.parts import TextsField
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.volumes.models import PoolClaim, PoolHost, StoragePool, Volume, VolumeType
from provisioning.volumes.pools.placement import VolumeFit, would_fit
from provisioning.volumes.selectors.pools import condition_of, servings
from provisioning.volumes.services.catalogue.pools import admit_host, forget_pool, set_enabled, set_frozen, update_pool

CHANGED = ("availability_zone", "reserved_percentage", "max_over_subscription_ratio")
WOULD_FIT = "novella:volumes:would_fit:pools"


class PoolForm(ModelForm):
    """A pool's change form, with the reason for disabling it."""

    class Meta:
        model = StoragePool
        fields = ("enabled", "disabled_reason", *CHANGED)
        help_texts = {
            "enabled": "Whether new volumes are scheduled to the pool.",
            "reserved_percentage": "The reserved part of the pool, in percent.",
            "max_over_subscription_ratio": "New volumes may use the rest times this ratio; 1: no over-subscription.",
        }


class FitForm(forms.Form):
    """A request for the placement of a volume."""

    size = forms.IntegerField(min_value=1, initial=1, label="Size (GiB)")
    volume_type = forms.ModelChoiceField(
        VolumeType.objects.order_by("name"), required=False, empty_label="the default", to_field_name="name"
    )
    zone = forms.CharField(max_length=255, required=False, label="Availability zone", help_text="Empty: any.")
    hints = TextsField(label="Scheduler hints", help_text='{"same_host": "VOLUME"} or {"different_host": "VOLUME"}')


def _state(pool: StoragePool) -> SafeString:
    """Render whether the pool gets volumes, with the reason if it does not."""
    condition, why = condition_of(pool, timezone.now())
    status = POOL_STATUS[condition]
    return tag(status.tone, status.word, why)


def _promised(pool: StoragePool) -> SafeString:
    """Render the capacity that is allocated to volumes, and the capacity that may be allocated."""
    limit = pool.total_gb * (1 - pool.reserved_percentage / 100) * pool.max_over_subscription_ratio
    words = f"{pool.allocated_gb} of {limit:.0f} GiB"
    if pool.allocated_gb > pool.total_gb > 0:
        words += f" · {pool.allocated_gb / pool.total_gb:.1f} times the capacity"
    return meter(pool.allocated_gb, limit, words)


def _filled(pool: StoragePool) -> SafeString:
    """Render the used and the reserved capacity."""
    used = max(pool.total_gb - pool.free_gb, 0)
    words = f"{pool.free_gb:.0f} of {pool.total_gb:.0f} GiB free"
    if pool.reserved_percentage:
        words += f" · {pool.reserved_percentage} % kept free"
    return meter(used, pool.total_gb, words, reserved=pool.reserved_percentage)


def _served_by(pool: StoragePool) -> SafeString:
    """Render links to the pool's hosts; hosts that are down, or do not serve the pool now, are marked."""
    now = timezone.now()
    rows = sorted(pool.servings.all(), key=lambda each: each.host.name)
    return format_html_join(", ", "{}{}", ((link_to(each.host), _trouble(each, now)) for each in rows)) or SafeString(
        "-"
    )


def _trouble(serving: PoolHost, now: datetime) -> str:
    if not is_alive(serving.host, now):
        return " (does not answer)"
    return "" if serving.serving else " (does not serve it now)"


def _claimants(pool: StoragePool) -> list[Host]:
    """Return the hosts that claim the pool without proof; an action on the claims admits them."""
    return [each.host for each in pool.claims.select_related("host").order_by("host__name")]


@admin.register(StoragePool)
class StoragePoolAdmin(Written):
    """The pools, which are created by the audits of their hosts."""

    rules = {
        "view": "scheduler_extension:scheduler_stats:get_pools",
        "change": "volume_extension:services:update",
        "enable": "volume_extension:services:update",
        "disable": "volume_extension:services:update",
        "freeze": "volume:freeze_host",
        "thaw": "volume:thaw_host",
        "forget": "volume_extension:services:update",
        "would_fit": WOULD_FIT,
    }
    form = PoolForm
    list_display = ("name", "served_by", "state", "availability_zone", "driver", "promised", "filled", "many_volumes")
    list_filter = ("driver", "availability_zone", "enabled", "frozen")
    search_fields = ("name", "id__startswith", "hosts__name")
    search_help_text = "Name or id of a pool, or a host"
    ordering = ("name", "id")
    actions = ("enable", "disable", "freeze", "thaw", "forget")
    change_list_template = "admin/novella/pools.html"
    readonly_fields = (
        "name", "id", "state", "warning", "frozen", "driver", "shared", "promised", "filled", "many_volumes",
        "served_by", "claimed_by", "can", "last_seen_at", "created_at",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("name", "state", "warning", "enabled", "disabled_reason", "frozen", CHANGED[0])}),
        ("Capacity", {"fields": ("promised", "filled", *CHANGED[1:], "many_volumes")}),
        (
            "Hosts and driver",
            {"fields": ("served_by", "claimed_by", "driver", "shared", "can", "id", "last_seen_at", "created_at")},
        ),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: pools are created by their hosts."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False: pools are removed by an action, which checks that it is possible."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[StoragePool]:
        rows: QuerySet[StoragePool] = super().get_queryset(request)
        return rows.annotate(many=Count("volumes", distinct=True)).prefetch_related(servings())

    def save_model(self, request: HttpRequest, obj: StoragePool, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write the changed fields through the services."""
        changed, data = set(form.changed_data), form.cleaned_data
        obj.refresh_from_db()
        values = {name: data[name] for name in CHANGED if name in changed}
        if values:
            update_pool(obj, values)
        if changed & {"enabled", "disabled_reason"}:
            set_enabled(obj, enabled=data["enabled"], reason=data["disabled_reason"])

    @row_action("Enable: schedule new volumes there", "Pools enabled")
    def enable(self, context: RequestContext, pool: StoragePool) -> None:
        set_enabled(pool, enabled=True)

    @row_action("Disable: schedule no new volumes there", "Pools disabled")
    def disable(self, context: RequestContext, pool: StoragePool) -> None:
        """Disable the pool for new volumes; the reason can be edited on the pool's page."""
        set_enabled(pool, enabled=False, reason=f"Disabled by {context.user_name}.")

    @row_action(
        "Freeze: nothing is created, deleted or changed there",
        "Pools frozen",
        question="Freeze these pools? Their volumes stay in use, and requests that change the pools are refused.",
    )
    def freeze(self, context: RequestContext, pool: StoragePool) -> None:
        set_frozen(pool, frozen=True)

    @row_action("Thaw: allow requests that change the pool again", "Pools thawed")
    def thaw(self, context: RequestContext, pool: StoragePool) -> None:
        set_frozen(pool, frozen=False)

    @row_action("Forget: remove an empty pool that no host serves", "Pools forgotten", question="Forget these pools?")
    def forget(self, context: RequestContext, pool: StoragePool) -> None:
        forget_pool(pool)

    state = column("state", _state)
    promised = column("promised to volumes", _promised, ordering="allocated_gb")
    filled = column("data in the pool", _filled, ordering="free_gb")
    many_volumes = column(
        "volumes", lambda pool: rows_link(Volume, "pool__id__exact", pool.pk, pool.many), ordering="many"
    )
    served_by = column("served by", _served_by)
    claimed_by = column("claimed by, not admitted", _claimants, link=True)
    can = column("capabilities", lambda pool: pairs(pool.capabilities))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the link to the placement of a new volume."""
        return super().changelist_view(request, {**(extra_context or {}), "may_ask": self.may(request, "would_fit")})

    def get_urls(self) -> list[URLPattern]:
        """Add the URL of the placement of a new volume."""
        page = self.admin_site.admin_view(self.would_fit)
        return [path("would-fit/", page, name="volumes_storagepool_would_fit"), *super().get_urls()]

    def would_fit(self, request: HttpRequest) -> HttpResponse:
        """Show where a volume would be placed now, and which pools each filter removed; nothing is created."""
        if not self.may(request, "would_fit"):
            raise PermissionDenied
        form, fit = FitForm(request.GET or None), None
        if form.is_valid():
            fit = self._ask(context_of(request), form)
        context = {
            **self.admin_site.each_context(request),
            "title": "Where would a volume be placed?",
            "opts": self.opts,
            "form": form,
            "fit": fit,
        }
        return TemplateResponse(request, "admin/novella/would_fit.html", context)

    @staticmethod
    def _ask(context: RequestContext, form: FitForm) -> VolumeFit | None:
        values = form.cleaned_data
        kind = values["volume_type"].name if values["volume_type"] else ""
        try:
            return would_fit(context, values["size"], volume_type=kind, zone=values["zone"], hints=values["hints"])
        except NovellaError as error:
            form.add_error(error.field if error.field in form.fields else None, error.message)
            return None


@admin.register(PoolClaim)
class PoolClaimAdmin(Written):
    """Hosts that claim a pool in their audits but are not admitted to it."""

    rules = {
        "view": "scheduler_extension:scheduler_stats:get_pools",
        "admit": "volume_extension:services:update",
    }
    list_display = ("pool", "host", "first_seen_at", "last_seen_at")
    list_select_related = ("pool", "host")
    search_fields = ("pool__name", "host__name")
    ordering = ("pool__name", "host__name")
    actions = ("admit",)
    readonly_fields = ("pool", "host", "first_seen_at", "last_seen_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: claims are created by audits of hosts."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False: a claim ends when the host is admitted or no longer claims the pool."""
        return False

    @row_action(
        "Admit: let the host serve the pool",
        "Hosts admitted",
        question="Admit these hosts? They get commands about the pools' volumes, and keys of encrypted volumes.",
    )
    def admit(self, context: RequestContext, claim: PoolClaim) -> None:
        admit_host(claim.pool, claim.host)
