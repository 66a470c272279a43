"""The metadata definitions of projects: deletion, limits and retention."""

from provisioning.identity.records.project_resources import Ids, Owned
from provisioning.metadefs.models import MetadefNamespace
from provisioning.metadefs.services.checks import MOST, MOST_NAMESPACES, MOST_TYPES

_OF_NAMESPACE = "Deleted with its namespace."


def _remove_private(project_ids: Ids) -> None:
    rows = MetadefNamespace.objects.filter(visibility=MetadefNamespace.Visibility.PRIVATE)
    rows.filter(owner__in=[project_id.hex for project_id in project_ids]).delete()


OF_PROJECTS = (Owned("metadata definitions", remove=_remove_private),)
_OF_EACH = f"At most {MOST} for each namespace."
UNLIMITED = {
    "metadefs.MetadefNamespace": f"At most {MOST_NAMESPACES} for each owner.",
    "metadefs.MetadefProperty": _OF_EACH,
    "metadefs.MetadefObject": _OF_EACH,
    "metadefs.MetadefTag": _OF_EACH,
    "metadefs.MetadefAssociation": _OF_EACH,
    "metadefs.MetadefResourceType": f"At most {MOST_TYPES} resource types.",
    "metadefs.LoadedMetadef": "One for each built-in namespace.",
}
UNPURGED = {
    "metadefs.MetadefNamespace": "Until it is deleted.",
    "metadefs.MetadefProperty": _OF_NAMESPACE,
    "metadefs.MetadefObject": _OF_NAMESPACE,
    "metadefs.MetadefTag": _OF_NAMESPACE,
    "metadefs.MetadefAssociation": _OF_NAMESPACE,
    "metadefs.MetadefResourceType": f"Permanently; at most {MOST_TYPES}.",
    "metadefs.LoadedMetadef": "Permanently; one for each built-in namespace.",
}
