"""What projects own in metadata definitions, what bounds it, and how long it is kept."""

from provisioning.identity import project_resources
from provisioning.identity.project_resources import Ids
from provisioning.jobs import retention
from provisioning.metadefs.models import MetadefNamespace
from provisioning.metadefs.services.bounds import MOST, MOST_NAMESPACES, MOST_TYPES
from provisioning.quotas import registry

_OF_NAMESPACE = "Goes with its namespace."


def register() -> None:
    """Make private namespaces go with their project; what is public stays for everybody."""
    project_resources.register("metadata definitions", None, _remove_private)
    of_namespace = f"At most {MOST} of each namespace."
    registry.leave_free(
        {
            "metadefs.MetadefNamespace": f"At most {MOST_NAMESPACES} of each owner.",
            "metadefs.MetadefProperty": of_namespace,
            "metadefs.MetadefObject": of_namespace,
            "metadefs.MetadefTag": of_namespace,
            "metadefs.MetadefAssociation": of_namespace,
            "metadefs.MetadefResourceType": f"At most {MOST_TYPES} kinds of things.",
            "metadefs.LoadedMetadef": "One for each namespace that comes with the cloud.",
        }
    )
    retention.keep(
        {
            "metadefs.MetadefNamespace": "Until it is deleted.",
            "metadefs.MetadefProperty": _OF_NAMESPACE,
            "metadefs.MetadefObject": _OF_NAMESPACE,
            "metadefs.MetadefTag": _OF_NAMESPACE,
            "metadefs.MetadefAssociation": _OF_NAMESPACE,
            "metadefs.MetadefResourceType": f"For good; there are {MOST_TYPES} at most.",
            "metadefs.LoadedMetadef": "For good; one for each namespace that comes with the cloud.",
        }
    )


def _remove_private(project_ids: Ids) -> None:
    rows = MetadefNamespace.objects.filter(visibility=MetadefNamespace.Visibility.PRIVATE)
    rows.filter(owner__in=[project_id.hex for project_id in project_ids]).delete()
