"""All services that write metadata definitions."""

from provisioning.metadefs.services.associations import associate, dissociate
from provisioning.metadefs.services.contents import (
    add_object,
    add_property,
    add_tag,
    change_object,
    change_property,
    remove,
    remove_all,
    rename_tag,
    set_tags,
)
from provisioning.metadefs.services.namespaces import Contents, create, delete, update

__all__ = [
    "Contents",
    "add_object",
    "add_property",
    "add_tag",
    "associate",
    "change_object",
    "change_property",
    "create",
    "delete",
    "dissociate",
    "remove",
    "remove_all",
    "rename_tag",
    "set_tags",
    "update",
]
