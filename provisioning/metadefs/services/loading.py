"""Loading the namespaces that come with the cloud: each once, so that what an operator makes of it stays."""

from collections.abc import Iterable

from django.db import transaction

from provisioning.common.errors import ConflictError
from provisioning.metadefs.models import LoadedMetadef, MetadefNamespace
from provisioning.metadefs.services import namespaces
from provisioning.metadefs.services.namespaces import Contents
from provisioning.metadefs.wellknown import NAMESPACES
from provisioning.metadefs.wellknown.words import Group, Type, WellKnown

OWNER = "admin"
"""What Glance, too, writes as the owner of what it brings: no project has this id, and operators change it."""


def load(known: Iterable[WellKnown] = NAMESPACES) -> list[str]:
    """Load those that were never loaded; return their names.  A namespace that somebody made of the name stays."""
    found = list(known)
    loaded = set(LoadedMetadef.objects.values_list("namespace", flat=True))
    return [each.name for each in found if each.name not in loaded and _load(each)]


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
