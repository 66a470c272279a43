"""All server actions."""

from typing import Any

from provisioning.compute.actions.attach_volume import AttachVolume
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.delete import Delete
from provisioning.compute.actions.detach_volume import DetachVolume
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.actions.guest_disks import ExtendFileSystem, MountVolume
from provisioning.compute.actions.interfaces import AttachInterface, DetachInterface, RefreshPorts
from provisioning.compute.actions.live_migrate import LiveMigrate
from provisioning.compute.actions.lock import Lock, Unlock
from provisioning.compute.actions.migrate import Migrate
from provisioning.compute.actions.power import (
    ChangePassword,
    CrashDump,
    HardReboot,
    Pause,
    Reboot,
    Resume,
    Start,
    Stop,
    Suspend,
    Unpause,
)
from provisioning.compute.actions.rebuild import RebuildAction
from provisioning.compute.actions.refresh_volume import RefreshVolume
from provisioning.compute.actions.rescue import Rescue, Unrescue
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.resize import ConfirmResize, Resize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.actions.snapshot import CreateBackup, CreateImage
from provisioning.compute.actions.soft_delete import Restore, SoftDelete
from provisioning.compute.actions.swap_volume import SwapVolume
from provisioning.compute.actions.trim import Trim
from provisioning.compute.actions.unshelve import Unshelve

ACTIONS: tuple[type[ServerAction[Any]], ...] = (
    CreateImage,
    CreateBackup,
    SoftDelete,
    Restore,
    Delete,
    Start,
    Stop,
    Reboot,
    HardReboot,
    Pause,
    Unpause,
    Suspend,
    Resume,
    ChangePassword,
    CrashDump,
    AttachInterface,
    DetachInterface,
    RefreshPorts,
    Rescue,
    Unrescue,
    Evacuate,
    Lock,
    Unlock,
    Shelve,
    Offload,
    Unshelve,
    AttachVolume,
    DetachVolume,
    RefreshVolume,
    MountVolume,
    ExtendFileSystem,
    LiveMigrate,
    Resize,
    ConfirmResize,
    Migrate,
    RebuildAction,
    ResetState,
    RevertResize,
    SwapVolume,
    Trim,
)
