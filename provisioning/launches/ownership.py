"""Launch templates and snippets of projects: deletion, limits and retention."""

from provisioning.identity.records.project_resources import Owned
from provisioning.launches.models import LaunchTemplate, Snippet

MOST_TEMPLATES = 100
MOST_VERSIONS = 50
"""Versions of one launch template."""
MOST_SNIPPETS = 100
LONGEST_SNIPPET = 16_384
"""Bytes of one snippet."""

OF_PROJECTS = (
    Owned("launch templates", remove=lambda ids: LaunchTemplate.objects.filter(project_id__in=ids).delete()),
    Owned("snippets", remove=lambda ids: Snippet.objects.filter(project_id__in=ids).delete()),
)
UNLIMITED = {
    "launches.InstanceLease": "At most one for each server, and servers are limited.",
    "launches.LaunchTemplate": f"At most {MOST_TEMPLATES} for each project.",
    "launches.LaunchTemplateVersion": f"At most {MOST_VERSIONS} for each launch template.",
    "launches.Snippet": f"At most {MOST_SNIPPETS} for each project.",
}
UNPURGED = {
    "launches.InstanceLease": "Deleted with its server.",
    "launches.LaunchTemplate": "Until it is deleted.",
    "launches.LaunchTemplateVersion": "Until it or its launch template is deleted.",
    "launches.Snippet": "Until it is deleted.",
}
