"""Volume types: placement, limits, encryption and access."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from portal.ops.admin.base import ModelForm, Written
from portal.ops.admin.columns import column, pairs, rows_link
from portal.ops.admin.volumes.parts import TextsField, differences
from provisioning.identity.models import Project
from provisioning.volumes.models import QosSpec, TypeEncryption, Volume, VolumeType, VolumeTypeAccess
from provisioning.volumes.records import keys
from provisioning.volumes.selectors.types import DEFAULT
from provisioning.volumes.services.catalogue import qos, types

ENCRYPTION = ("provider", "cipher", "key_size")


class VolumeTypeForm(ModelForm):
    """A type with all its parts."""

    description = forms.CharField(max_length=255, required=False, empty_value=None)
    qos_spec = forms.ModelChoiceField(
        QosSpec.objects.order_by("name"), required=False, label="QoS spec", empty_label="no limits"
    )
    extra_specs = TextsField(
        help_text='Requirements of a pool, like {"volume_backend_name": "local"}; {"multiattach": "<is> True"} allows'
        " several servers to share a volume. Fixed while there are volumes of the type."
    )
    provider = forms.ChoiceField(
        choices=[("", "not encrypted"), ("luks", "luks")],
        required=False,
        label="Encryption",
        help_text="Fixed while there are volumes of the type.",
    )
    cipher = forms.ChoiceField(choices=[("", "the default"), *((each, each) for each in keys.CIPHERS)], required=False)
    key_size = forms.TypedChoiceField(
        choices=[("", "the default"), *((each, str(each)) for each in keys.KEY_SIZES)],
        coerce=int,
        empty_value=None,
        required=False,
        label="Key size (bits)",
    )
    projects = forms.ModelMultipleChoiceField(
        Project.objects.order_by("name"), required=False, help_text="Projects that may use a private type."
    )

    class Meta:
        model = VolumeType
        fields = ("name", "description", "is_public", "qos_spec")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk and not self.instance._state.adding:
            there = TypeEncryption.objects.filter(volume_type=self.instance).first()
            for name in ENCRYPTION if there else ():
                self.fields[name].initial = "luks" if name == "provider" else getattr(there, name)
            self.fields["extra_specs"].initial = self.instance.extra_specs
            self.fields["projects"].initial = list(
                VolumeTypeAccess.objects.filter(volume_type=self.instance).values_list("project_id", flat=True)
            )


def _projects(kind: Any) -> str:
    """Return the projects whose default type is this type."""
    if kind.name == DEFAULT:
        return "every project without another"
    return f"{kind.projects} project{'' if kind.projects == 1 else 's'}" if kind.projects else "-"


@admin.register(VolumeType)
class VolumeTypeAdmin(Written):
    rules = {
        "view": "volume_extension:types_extra_specs:read_sensitive",
        "add": "volume_extension:type_create",
        "change": "volume_extension:type_update",
        "delete": "volume_extension:type_delete",
    }
    form = VolumeTypeForm
    fields = (
        "name", "description", "is_public", "projects", "extra_specs", "qos_spec", "provider", "cipher", "key_size",
    )  # fmt: skip
    list_display = ("name", "is_public", "asks", "qos_spec", "encrypted", "many_volumes", "default_of")
    list_filter = ("is_public",)
    list_select_related = ("qos_spec", "encryption")
    search_fields = ("name", "id__startswith")
    ordering = ("name",)
    remove = staticmethod(types.delete_type)

    def get_queryset(self, request: HttpRequest) -> QuerySet[VolumeType]:
        rows: QuerySet[VolumeType] = super().get_queryset(request)
        return rows.annotate(many=Count("volumes", distinct=True), projects=Count("defaults", distinct=True))

    asks = column("extra specs", lambda kind: pairs(kind.extra_specs))
    encrypted = column("encrypted", lambda kind: hasattr(kind, "encryption"), boolean=True)

    many_volumes = column(
        "volumes", lambda kind: rows_link(Volume, "volume_type__id__exact", kind.pk, kind.many), ordering="many"
    )

    default_of = column("default of", _projects)

    def save_model(self, request: HttpRequest, obj: VolumeType, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write the changed parts through the services."""
        data, changed = form.cleaned_data, set(form.changed_data)
        own = {name: data[name] for name in ("name", "description", "is_public") if name in changed}
        if not change:
            words = {"description": data["description"], "is_public": data["is_public"]}
            obj.pk = types.create_type(data["name"], extra_specs=data["extra_specs"], **words).pk
            changed -= {"extra_specs"}
        kind = VolumeType.objects.get(pk=obj.pk)
        if change and own:
            types.update_type(kind, own)
        if "extra_specs" in changed:
            _set_extra_specs(kind, data["extra_specs"])
        if "qos_spec" in changed:
            _set_qos(kind, data["qos_spec"])
        if changed & set(ENCRYPTION):
            _set_encryption(kind, data)
        if not kind.is_public and changed & {"projects", "is_public"}:
            _set_access(kind, data["projects"])


def _set_extra_specs(kind: VolumeType, requested: dict[str, str]) -> None:
    changed, gone = differences(kind.extra_specs, requested)
    for key in gone:
        types.delete_extra_spec(kind, key)
    if changed:
        types.set_extra_specs(kind, changed)


def _set_qos(kind: VolumeType, requested: Any) -> None:
    if kind.qos_spec is not None:
        qos.disassociate(kind.qos_spec, kind)
        kind.refresh_from_db()
    if requested is not None:
        qos.associate(requested, kind)


def _set_encryption(kind: VolumeType, data: dict[str, Any]) -> None:
    there = TypeEncryption.objects.filter(volume_type=kind).exists()
    values = {"provider": data["provider"], "cipher": data["cipher"] or None, "key_size": data["key_size"]}
    if not data["provider"]:
        if there:
            types.delete_encryption(kind)
    elif there:
        types.update_encryption(kind, values)
    else:
        types.create_encryption(kind, values)


def _set_access(kind: VolumeType, projects: Any) -> None:
    there = set(VolumeTypeAccess.objects.filter(volume_type=kind).values_list("project_id", flat=True))
    project_ids = {project.id for project in projects}
    for project_id in there - project_ids:
        types.remove_access(kind, project_id)
    for project_id in project_ids - there:
        types.add_access(kind, project_id)
