"""Aggregates with their hosts; server groups, read-only."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from portal.ops.admin.base import ModelForm, Readable, Written, context_of
from portal.ops.admin.columns import PROJECT, column
from provisioning.compute.models import Aggregate, ServerGroup
from provisioning.compute.selectors.server_groups import members_of
from provisioning.compute.services import aggregates
from provisioning.hosts.models import Host


class AggregateForm(ModelForm):
    """An aggregate with its hosts."""

    members = forms.ModelMultipleChoiceField(Host.objects.order_by("name"), required=False, label="Hosts")
    metadata = forms.JSONField(
        required=False, initial=dict, help_text='Keys and values, like {"ssd": "true"}, which flavors can require.'
    )

    class Meta:
        model = Aggregate
        fields = ("name", "availability_zone")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["members"].initial = self.instance.hosts.all()

    def clean_metadata(self) -> dict[str, str]:
        value = self.cleaned_data["metadata"] or {}
        if not isinstance(value, dict) or not all(
            isinstance(item, str) and len(item) <= 255 for item in value.values()
        ):
            raise forms.ValidationError("Every value must be text of at most 255 characters.")
        return value


@admin.register(Aggregate)
class AggregateAdmin(Written):
    rules = {
        "view": "os_compute_api:os-aggregates:index",
        "add": "os_compute_api:os-aggregates:create",
        "change": "os_compute_api:os-aggregates:update",
        "delete": "os_compute_api:os-aggregates:delete",
    }
    form = AggregateForm
    fields = ("name", "availability_zone", "members", "metadata")
    list_display = ("name", "availability_zone", "host_count", "created_at")
    search_fields = ("name", "availability_zone")
    ordering = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Aggregate]:
        """Annotate rows with the number of hosts."""
        return Aggregate.objects.annotate(many=Count("hosts"))

    host_count = column("hosts", "many", ordering="many")

    def save_model(self, request: HttpRequest, obj: Aggregate, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write through the services: hosts are removed before the zone changes, and added after it."""
        context, data = context_of(request), form.cleaned_data
        zone = data["availability_zone"] or None
        host_names = {host.name for host in data["members"]}
        there: set[str] = set()
        if change:
            there = set(Host.objects.filter(aggregates=obj).values_list("name", flat=True))
            for name in sorted(there - host_names):
                aggregates.remove_host(context, obj.pk, name)
            aggregates.update_aggregate(context, obj.pk, {"name": data["name"], "availability_zone": zone})
        else:
            obj.pk = aggregates.create_aggregate(context, data["name"], zone).pk
        kept = Aggregate.objects.values_list("metadata", flat=True).get(pk=obj.pk)
        if kept != data["metadata"]:
            gone = dict.fromkeys(kept.keys() - data["metadata"].keys())
            aggregates.set_aggregate_metadata(context, obj.pk, {**gone, **data["metadata"]})
        for name in sorted(host_names - there):
            aggregates.add_host(context, obj.pk, name)

    def delete_model(self, request: HttpRequest, obj: Aggregate) -> None:
        """Delete the aggregate; refused while it has hosts."""
        aggregates.delete_aggregate(context_of(request), obj.pk)


@admin.register(ServerGroup)
class ServerGroupAdmin(Readable):
    """The server groups of all projects."""

    rules = {"view": "os_compute_api:os-server-groups:index:all_projects"}
    list_display = ("name", "policy", "max_server_per_host", "project", "created_at")
    list_filter = ("policy",)
    search_fields = ("name", "id__startswith")
    ordering = ("-created_at",)
    fields = ("name", "id", "policy", "max_server_per_host", "project", "user_id", "servers", "created_at")
    readonly_fields = ("project", "servers")

    project = PROJECT
    servers = column("servers", lambda group: ", ".join(str(server) for server in members_of([group])[group.id]))
