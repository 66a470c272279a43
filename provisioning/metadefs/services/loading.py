"""Loading the namespaces that come with the cloud: each once, so that what an operator makes of it stays."""

from collections.abc import Iterable

from django.db import transaction

from provisioning.common.errors import ConflictError
from provisioning.metadefs.models import LoadedMetadef, MetadefNamespace, MetadefProperty
from provisioning.metadefs.services import namespaces
from provisioning.metadefs.services.namespaces import Contents
from provisioning.metadefs.wellknown import NAMESPACES
from provisioning.metadefs.wellknown.words import Group, Type, WellKnown

OUTDATED = ("hosts of this cloud do not act on it.", "is refused.")
"""The ends of descriptions by which earlier versions told how a property was treated."""
OWNER = "admin"
"""What Glance, too, writes as the owner of what it brings: no project has this id, and operators change it."""


def load(known: Iterable[WellKnown] = NAMESPACES) -> list[str]:
    """Load those that were never loaded; return their names.  A namespace that somebody made of the name stays.

    In the others, what an earlier version said about the treatment of a property is renewed.
    """
    found = list(known)
    _renew(found)
    loaded = set(LoadedMetadef.objects.values_list("namespace", flat=True))
    return [each.name for each in found if each.name not in loaded and _load(each)]


def _renew(known: Iterable[WellKnown]) -> None:
    """Give properties whose description ends as in an earlier version the schema of this one."""
    shipped = {each.name: each for each in known}
    for row in MetadefProperty.objects.filter(namespace__owner=OWNER).select_related("namespace"):
        named = shipped.get(row.namespace.namespace)
        if named is None or not str(row.schema.get("description", "")).endswith(OUTDATED):
            continue
        schema = named.properties.get(row.name)
        if schema is not None and schema != row.schema:
            MetadefProperty.objects.filter(pk=row.pk).update(schema=schema)


def restore(name: str) -> bool:
    """Bring a namespace back as it came, in place of what there is of it; whether it is one that came."""
    known = next((each for each in NAMESPACES if each.name == name), None)
    if known is None:
        return False
    with transaction.atomic():
        MetadefNamespace.objects.filter(namespace=name).delete()
        LoadedMetadef.objects.filter(namespace=name).delete()
        _load(known)
    return True


def _load(known: WellKnown) -> bool:
    """Write one; several may do it at once, of which one does."""
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
