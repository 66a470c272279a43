"""Dialogs for one instance: server actions with parameters, and changes of its record."""

from portal.dashboard.instances.dialogs.access import ChangePassword, LockWithReason, ResetState
from portal.dashboard.instances.dialogs.describe import EditMetadata, EditTags, Rename
from portal.dashboard.instances.dialogs.guest_disks import ExtendInGuest, MountInGuest
from portal.dashboard.instances.dialogs.images import CreateBackup, CreateImage, Rebuild, Rescue
from portal.dashboard.instances.dialogs.migrate import LiveMigrate, Migrate
from portal.dashboard.instances.dialogs.moving import AbortMigration, CompleteMigration
from portal.dashboard.instances.dialogs.network import AttachInterface, DetachInterface
from portal.dashboard.instances.dialogs.place import UnshelveTo
from portal.dashboard.instances.dialogs.size import Resize
from portal.dashboard.instances.page import InstanceDialog

DIALOGS: tuple[type[InstanceDialog], ...] = (
    Rename,
    EditTags,
    EditMetadata,
    Resize,
    Migrate,
    LiveMigrate,
    AbortMigration,
    CompleteMigration,
    Rebuild,
    CreateImage,
    CreateBackup,
    Rescue,
    ChangePassword,
    AttachInterface,
    DetachInterface,
    MountInGuest,
    ExtendInGuest,
    UnshelveTo,
    LockWithReason,
    ResetState,
)
"""Their addresses follow from ``path``, and their entries in the menu from ``action``, ``label`` and ``icon``."""
