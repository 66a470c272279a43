"""The namespaces that come with the cloud: the well-known ones of OpenStack that mean something here, and our own."""

from provisioning.metadefs.wellknown import compute, flavors, images, software
from provisioning.metadefs.wellknown.words import WellKnown

NAMESPACES: tuple[WellKnown, ...] = (*images.NAMESPACES, *flavors.NAMESPACES, *compute.NAMESPACES, *software.NAMESPACES)
