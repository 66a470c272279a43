"""Loads the built-in namespaces. Each is loaded only once, so that changes by operators are kept."""

from collections.abc import Iterable

from django.db import transaction

from provisioning.common.errors import ConflictError
from provisioning.metadefs.models import LoadedMetadef, MetadefNamespace, MetadefProperty
from provisioning.metadefs.services import namespaces
from provisioning.metadefs.services.namespaces import Contents
from provisioning.metadefs.wellknown import NAMESPACES, Group, Type, WellKnown

OUTDATED = ("hosts of this cloud do not act on it.", "is refused.")
"""Endings of descriptions that earlier versions have loaded; ``load`` replaces such descriptions."""
OWNER = "admin"
"""The owner that Glance also writes for its built-in namespaces. No project has this id; only operators may change
them.
"""


def load(known: Iterable[WellKnown] = NAMESPACES) -> list[str]:
    """Load the namespaces that were never loaded, and return their names. Existing namespaces are not replaced.

    In loaded namespaces, outdated descriptions of the treatment of properties are updated.
    """
    well_known = list(known)
    _renew(well_known)
    loaded = set(LoadedMetadef.objects.values_list("namespace", flat=True))
    return [each.name for each in well_known if each.name not in loaded and _load(each)]


def _renew(known: Iterable[WellKnown]) -> None:
    """Replace the stored schema of each built-in property that still has the description of an earlier version."""
    shipped = {each.name: each for each in known}
    for row in MetadefProperty.objects.filter(namespace__owner=OWNER).select_related("namespace"):
        named = shipped.get(row.namespace.namespace)
        if named is None or not str(row.schema.get("description", "")).endswith(OUTDATED):
            continue
        schema = named.properties.get(row.name)
        if schema is not None and schema != row.schema:
            MetadefProperty.objects.filter(pk=row.pk).update(schema=schema)


def restore(name: str) -> bool:
    """Restore a built-in namespace to its original state; False if the name is not a built-in one."""
    known = next((each for each in NAMESPACES if each.name == name), None)
    if known is None:
        return False
    with transaction.atomic():
        MetadefNamespace.objects.filter(namespace=name).delete()
        LoadedMetadef.objects.filter(namespace=name).delete()
        _load(known)
    return True


def _load(known: WellKnown) -> bool:
    """Load one namespace; False if another process has loaded it or the name exists."""
    with transaction.atomic():
        if not LoadedMetadef.objects.get_or_create(namespace=known.name)[1]:
            return False
        try:
            made = namespaces.make(
                {
                    "namespace": known.name,
                    "display_name": known.title,
                    "description": known.description,
                    "visibility": MetadefNamespace.Visibility.PUBLIC,
                    "protected": True,
                    "owner": OWNER,
                }
            )
        except ConflictError:
            return False
        namespaces.fill(made, _contents(known))
    return True


def _contents(known: WellKnown) -> Contents:
    return Contents(
        associations=[_association(each) for each in known.types],
        properties=known.properties,
        objects=[_object(each) for each in known.groups],
    )


def _association(each: Type) -> dict[str, str | None]:
    return {"name": each.name, "prefix": each.prefix, "properties_target": each.target}


def _object(each: Group) -> dict[str, object]:
    return {"name": each.name, "description": each.description, "properties": each.properties}
