"""QoS specs, group types, and default volume types of projects."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from portal.ops.admin.base import ModelForm, Written
from portal.ops.admin.columns import PROJECT, column, pairs
from portal.ops.admin.volumes.parts import TextsField, differences
from provisioning.identity.models import Project
from provisioning.volumes.models import DefaultType, GroupType, QosSpec, VolumeType
from provisioning.volumes.services.catalogue import group_types, qos, types

CONSUMERS = (("front-end", "front-end (the hypervisor)"), ("back-end", "back-end (the pool)"), ("both", "both"))


class QosForm(ModelForm):
    """A QoS spec with its limits."""

    consumer = forms.ChoiceField(
        choices=CONSUMERS, help_text="Limits of front-end and both are enforced by hypervisors."
    )
    specs = TextsField(
        label="Limits",
        help_text='Like {"total_iops_sec": "500", "total_bytes_sec": "104857600"}; running guests are updated.',
    )

    class Meta:
        model = QosSpec
        fields = ("name", "consumer", "specs")


@admin.register(QosSpec)
class QosSpecAdmin(Written):
    rules = {
        "view": "volume_extension:qos_specs_manage:get_all",
        "add": "volume_extension:qos_specs_manage:create",
        "change": "volume_extension:qos_specs_manage:update",
        "delete": "volume_extension:qos_specs_manage:delete",
    }
    form = QosForm
    fields = ("name", "consumer", "specs")
    fixed = ("name",)
    list_display = ("name", "consumer", "limits", "of_types")
    search_fields = ("name", "id__startswith")
    ordering = ("name",)
    remove = staticmethod(qos.delete_qos_spec)

    def get_queryset(self, request: HttpRequest) -> QuerySet[QosSpec]:
        rows: QuerySet[QosSpec] = super().get_queryset(request)
        return rows.prefetch_related("types")

    limits = column("limits", lambda spec: pairs(spec.specs))
    of_types = column("types", lambda spec: ", ".join(sorted(kind.name for kind in spec.types.all())) or "-")

    def save_model(self, request: HttpRequest, obj: QosSpec, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        data = form.cleaned_data
        if not change:
            obj.pk = qos.create_qos_spec(data["name"], data["consumer"], data["specs"]).pk
            return
        spec = QosSpec.objects.get(pk=obj.pk)
        changed, gone = differences(spec.specs, data["specs"])
        if gone:
            qos.delete_keys(spec, gone)
        if changed or spec.consumer != data["consumer"]:
            qos.update_qos_spec(spec, {**changed, "consumer": data["consumer"]})


class GroupTypeForm(ModelForm):
    """A group type with its specs."""

    description = forms.CharField(max_length=255, required=False, empty_value=None)
    group_specs = TextsField(help_text='Like {"consistent_group_snapshot_enabled": "<is> True"}.')

    class Meta:
        model = GroupType
        fields = ("name", "description", "is_public", "group_specs")


@admin.register(GroupType)
class GroupTypeAdmin(Written):
    rules = {
        "view": "group:access_group_types_specs",
        "add": "group:group_types:create",
        "change": "group:group_types:update",
        "delete": "group:group_types:delete",
    }
    form = GroupTypeForm
    fields = ("name", "description", "is_public", "group_specs")
    list_display = ("name", "is_public", "many_groups", "created_at")
    search_fields = ("name", "id__startswith")
    ordering = ("name",)
    remove = staticmethod(group_types.delete_group_type)

    def get_queryset(self, request: HttpRequest) -> QuerySet[GroupType]:
        rows: QuerySet[GroupType] = super().get_queryset(request)
        return rows.annotate(many=Count("groups", distinct=True))

    many_groups = column("groups", "many", ordering="many")

    def save_model(self, request: HttpRequest, obj: GroupType, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        data = form.cleaned_data
        words = {name: data[name] for name in ("description", "is_public", "name")}
        if not change:
            obj.pk = group_types.create_group_type(group_specs=data["group_specs"], **words).pk
            return
        kind = GroupType.objects.get(pk=obj.pk)
        changed, gone = differences(kind.group_specs, data["group_specs"])
        own = {name: value for name, value in words.items() if name in form.changed_data}
        if own:
            group_types.update_group_type(kind, own)
        for key in gone:
            group_types.delete_group_spec(kind, key)
        if changed:
            group_types.set_group_specs(kind, changed)


class DefaultTypeForm(ModelForm):
    """A project and its default volume type."""

    project_id = forms.ModelChoiceField(Project.objects.order_by("name"), label="Project")
    volume_type = forms.ModelChoiceField(VolumeType.objects.order_by("name"))

    class Meta:
        model = DefaultType
        fields = ("project_id", "volume_type")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Remove the project where it is read-only, as the field would be required."""
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            del self.fields["project_id"]

    def clean_project_id(self) -> Any:
        return self.cleaned_data["project_id"].id


@admin.register(DefaultType)
class DefaultTypeAdmin(Written):
    """The default volume types of projects, for new volumes without a specified type. All other projects use
    ``__DEFAULT__``.
    """

    rules = {
        "view": "volume_extension:default_get_all",
        "add": "volume_extension:default_set_or_update",
        "change": "volume_extension:default_set_or_update",
        "delete": "volume_extension:default_unset",
    }
    form = DefaultTypeForm
    list_display = ("project", "volume_type")
    list_select_related = ("volume_type",)
    new_fields = ("project_id", "volume_type")
    fields = ("project", "volume_type")
    fixed = ("project",)
    remove = staticmethod(lambda row: types.unset_default_type(row.project_id))

    project = PROJECT

    def save_model(self, request: HttpRequest, obj: DefaultType, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        types.set_default_type(obj.project_id, form.cleaned_data["volume_type"])
