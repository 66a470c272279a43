"""All tasks of records."""

from typing import Any

from provisioning.common.tasks import RecordTask
from provisioning.images.services.imports import Import
from provisioning.images.services.staging import Stage
from provisioning.images.services.uploads import Upload
from provisioning.volumes.services.backups.backup_restores import Restore
from provisioning.volumes.services.backups.backups import BeBackedUp, CreateBackup, DeleteBackup
from provisioning.volumes.services.connections.attachments import Attach, Connect
from provisioning.volumes.services.lifecycle.create import Create
from provisioning.volumes.services.lifecycle.delete import Delete
from provisioning.volumes.services.lifecycle.manage import Manage, Unmanage
from provisioning.volumes.services.lifecycle.manage_snapshots import ManageSnapshot, UnmanageSnapshot
from provisioning.volumes.services.lifecycle.reimage import Reimage
from provisioning.volumes.services.lifecycle.snapshots import CreateSnapshot, DeleteSnapshot, Revert
from provisioning.volumes.services.lifecycle.upload import UploadToImage
from provisioning.volumes.services.updates.extend import Extend
from provisioning.volumes.services.updates.migrate import Migrate
from provisioning.volumes.services.updates.retype import Retype

TASKS: tuple[type[RecordTask[Any]], ...] = (
    # images
    Import,
    Stage,
    Upload,
    # volumes and their attachments
    Create,
    Delete,
    Extend,
    Manage,
    Migrate,
    Reimage,
    Restore,
    Retype,
    Revert,
    Unmanage,
    UploadToImage,
    BeBackedUp,
    Attach,
    Connect,
    # snapshots and backups
    CreateSnapshot,
    DeleteSnapshot,
    ManageSnapshot,
    UnmanageSnapshot,
    CreateBackup,
    DeleteBackup,
)
