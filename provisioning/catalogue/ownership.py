"""The rows of the catalogue: deletion, limits and retention."""

from provisioning.catalogue.models import CatalogueImage
from provisioning.identity.records.project_resources import Ids, Owned


def _remove(project_ids: Ids) -> None:
    CatalogueImage.objects.filter(project_id__in=project_ids).delete()


OF_PROJECTS = (Owned("images of the catalogue", remove=_remove),)
UNLIMITED = {
    "catalogue.CatalogueIndex": "One row, the index that was read last.",
    "catalogue.CatalogueImage": "One for each version of an entry in a project; its image counts in the quota.",
}
UNPURGED = {
    "catalogue.CatalogueIndex": "Permanently; one row.",
    "catalogue.CatalogueImage": "Deleted with its image; after a failure 7 days.",
}
