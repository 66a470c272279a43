"""All services that write images."""

from provisioning.images.services.imports import Import, ImportRequest, import_new
from provisioning.images.services.launch_permissions import change_permissions, reset_permissions
from provisioning.images.services.members import add_member, remove_member, set_member_status
from provisioning.images.services.records import create, deactivate, delete, patch, reactivate, set_tag, update
from provisioning.images.services.recovery import adopt_complete
from provisioning.images.services.resumable import append, begin_upload
from provisioning.images.services.staging import stage, unstage
from provisioning.images.services.uploads import upload

__all__ = [
    "Import",
    "ImportRequest",
    "add_member",
    "adopt_complete",
    "append",
    "begin_upload",
    "change_permissions",
    "create",
    "deactivate",
    "delete",
    "import_new",
    "patch",
    "reactivate",
    "remove_member",
    "reset_permissions",
    "set_member_status",
    "set_tag",
    "stage",
    "unstage",
    "update",
    "upload",
]
