"""Everything that writes images: records, members, uploads, the end."""

from provisioning.images.services.members import add_member, remove_member, set_member_status
from provisioning.images.services.records import create, deactivate, delete, patch, reactivate, set_tag, update
from provisioning.images.services.uploads import recover_interrupted_uploads, upload

__all__ = [
    "add_member",
    "create",
    "deactivate",
    "delete",
    "patch",
    "reactivate",
    "recover_interrupted_uploads",
    "remove_member",
    "set_member_status",
    "set_tag",
    "update",
    "upload",
]
