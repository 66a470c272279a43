"""All services of the catalogue."""

from provisioning.catalogue.services.adding import add
from provisioning.catalogue.services.refreshing import refresh

__all__ = ["add", "refresh"]
