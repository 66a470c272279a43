"""Rebuild a server: its disks are created again from an image; id, flavor, interfaces and addresses stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import CommandBody, PowerRequest, RebuildRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NovellaError
from provisioning.common.values.unset import UNSET, Unset
from provisioning.compute.actions import volume_rebuilds
from provisioning.compute.actions.base import BROKE, Ending, HostAction, Prepared, Stage
from provisioning.compute.actions.rescue import own_image
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.flavor_and_image import check_disk, check_fit, check_image, needs_config_drive
from provisioning.compute.launch.guest_data import check_files, check_user_data
from provisioning.compute.launch.request import InjectedFile
from provisioning.compute.models import Flavor, Instance, InstanceAction, KeyPair
from provisioning.compute.records import instance_actions
from provisioning.compute.records.passwords import sealed
from provisioning.compute.selectors.host_offers import boot_properties, check_host_offers
from provisioning.compute.services.instances import Changes, check_changes
from provisioning.compute.services.metadata import check_metadata
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.images.selectors.companions import companions
from provisioning.quotas import selectors as quotas

WRITE, SPAWN = "rebuild_volume", "rebuild_guest"
"""Transitions into the later tasks of a rebuild that overwrites a volume."""
NOT_THERE = "instance_not_found"
"""Code of a host's report about a guest that does not exist."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Parameters of a rebuild, named as in the Compute API; unset or None: unchanged."""

    image_id: str
    admin_password: str | None = None
    changes: Changes = field(default_factory=Changes)
    metadata: Mapping[str, str] | None = None
    injected_files: Sequence[InjectedFile] = ()
    preserve_ephemeral: bool = False
    key_name: str | Unset | None = UNSET
    """None removes the key pair."""
    user_data: str | Unset | None = UNSET
    """Base64; None removes the user data."""
    trusted_certificates: Sequence[str] | Unset | None = UNSET
    writes_volume: bool = False
    """Whether the image overwrites the boot volume of a volume-backed server (the default from 2.93 on)."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Data for the command of a rebuild."""

    preserve_ephemeral: bool = False
    volume_image_id: str = ""
    """Image to write to the boot volume; empty: the volume keeps its data."""

    def detail(self) -> dict[str, str]:
        """Return the plan as the detail of the action record's first step; later steps read it there."""
        if not self.volume_image_id:
            return {}
        return {"volume_image": self.volume_image_id, "preserve_ephemeral": str(self.preserve_ephemeral).lower()}


class RebuildAction(HostAction[Rebuild, RebuildRequest | PowerRequest]):
    """Rebuild a server; a stopped one stays stopped. The records change immediately.

    If the image overwrites the boot volume:

    1. the guest is stopped (``rebuilding``);
    2. the image is written to the volume, which stays attached (``rebuild_block_device_mapping``, ``volume_written``);
    3. the guest is created again (``rebuild_spawning``).
    """

    key = record = api = notification = "rebuild"
    done = "Rebuilt"
    doing = "Rebuilding"
    rule = "os_compute_api:servers:rebuild"
    rule_description = "Rebuild a server from an image."
    takes_request = True
    from_states, task = (VmState.ACTIVE, VmState.STOPPED, VmState.ERROR), TaskState.REBUILDING
    stages = (
        Stage(WRITE, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, "Writing the image to its volume", of_volume=True),
        Stage(SPAWN, TaskState.REBUILD_SPAWNING, "Rebuilding"),
    )
    ends = {"rebuilt": VmState.ACTIVE, "rebuilt_stopped": VmState.STOPPED}
    badly = BROKE
    status = {VmState.ACTIVE: "REBUILD", VmState.STOPPED: "REBUILD", VmState.ERROR: "REBUILD"}
    timeout, heavy_io, remakes_guest = "BUILD_TIMEOUT", True, True
    body = RebuildRequest

    def awaits(self, body: CommandBody) -> bool:
        """Whether the command stops or rebuilds the guest."""
        return isinstance(body, RebuildRequest) or (isinstance(body, PowerRequest) and body.action == "stop")

    def prepare(self, context: RequestContext, instance: Instance, request: Rebuild) -> Prepared:
        """Validate the request. Raises InvalidInputError with the ``field``, OverQuotaError, ForbiddenError."""
        writes = request.writes_volume and boots_from_volume(instance)
        plan = _Plan(request.preserve_ephemeral, request.image_id if writes else "")
        return Prepared(_columns(context, instance, request), plan, plan.detail())

    def command(self, instance: Instance, prepared: Prepared) -> RebuildRequest | PowerRequest:
        """Return the command to rebuild the guest, or the command to stop it if its volume is overwritten first."""
        plan: _Plan = prepared.value
        if plan.volume_image_id:
            return PowerRequest(action="stop", timeout=shutdown_seconds(instance))
        return RebuildRequest(
            instance=guest_spec(instance, with_bits=True),
            start=instance.vm_state != VmState.STOPPED,
            preserve_ephemeral=plan.preserve_ephemeral,
        )

    def end(self, instance: Instance, body: RebuildRequest | PowerRequest, outcome: Outcome) -> Instance | None:
        """End the rebuild; if the command was the stop, write the volume next."""
        if isinstance(body, RebuildRequest):
            return super().end(instance, body, outcome)
        if instance.task_state != TaskState.REBUILDING:
            return None
        if not outcome.well and outcome.code != NOT_THERE:  # a missing guest is stopped
            return super().end(instance, body, outcome)
        row = instance_actions.current(instance.id, self.record)
        try:
            with transaction.atomic():
                volume_rebuilds.write(instance, _plan_of(row).volume_image_id)
        except NovellaError as error:
            return super().end(instance, body, replace(outcome, well=False, message=error.message, code=error.code))
        changes = {} if outcome.power is None else {"power_state": int(outcome.power)}
        moved = state.advance(instance, WRITE, attempt=instance.attempt, changes=changes)
        if moved is not None and row is not None:
            volume_rebuilds.show_begun(moved, row, outcome)
        return moved

    def volume_written(self, instance: Instance, failure: str) -> None:
        """Continue when the volume is written, or end the rebuild with the failure; the server is locked.

        No effect when the server does not wait for a volume.
        """
        if instance.task_state != TaskState.REBUILD_BLOCK_DEVICE_MAPPING:
            return
        row = instance_actions.current(instance.id, self.record)
        if row is not None:
            volume_rebuilds.show_ended(instance, row, failure)
        code = volume_rebuilds.FAILED
        if not failure:
            try:
                self._send_rebuild(instance, _plan_of(row))
            except NovellaError as error:
                failure, code = error.message, error.code
        if failure:
            now = timezone.now()
            outcome = Outcome(well=False, begun_at=now, ended_at=now, message=failure, code=code)
            super().end(instance, PowerRequest(action="stop"), outcome)

    def _send_rebuild(self, instance: Instance, plan: _Plan) -> None:
        volume_rebuilds.check_there(instance)
        body = self.command(instance, Prepared(value=replace(plan, volume_image_id="")))
        moved = state.advance(instance, SPAWN, attempt=instance.attempt)
        if moved is not None and moved.host is not None:
            self.send(moved.host, moved, body)

    def finished(self, instance: Instance, body: RebuildRequest | PowerRequest, outcome: Outcome) -> Ending:
        """Delete the stored password, which the guest has now."""
        forget = {"admin_password": ""}
        if not outcome.well or not isinstance(body, RebuildRequest):
            return Ending(columns=forget)
        end = "rebuilt" if body.start else "rebuilt_stopped"
        return Ending(end, {**forget, "launched_at": timezone.now()})

    def overdue(self, instance: Instance) -> None:
        """Extend the deadline while the volume is overwritten, because this work has the volume's deadline."""
        if instance.task_state != TaskState.REBUILD_BLOCK_DEVICE_MAPPING:
            super().overdue(instance)
        elif volume_rebuilds.goes_on(instance):
            state.extend_deadline(instance)
        else:
            self.volume_written(instance, volume_rebuilds.LOST)


def _columns(context: RequestContext, instance: Instance, request: Rebuild) -> dict[str, Any]:
    """Validate a rebuild and return the columns to change."""
    if boots_from_volume(instance):
        of_volume = volume_rebuilds.columns(context, instance, request.image_id, writes=request.writes_volume)
        return of_volume | _others(context, instance, request)
    foreign = context.project_id != instance.project_id  # an operator rebuilds another project's server
    same = foreign and request.image_id == str(instance.image_id)
    image = own_image(instance) if same else check_image(context, request.image_id)
    _check_fit(instance, image)
    properties = boot_properties(image)
    check_demands(properties, instance.flavor)
    check_host_offers(instance, properties)
    of_image = {
        "image_id": image.id,
        "image_name": image.name,
        "image_properties": properties,
        "config_drive": instance.config_drive or needs_config_drive(properties),
    }
    return of_image | _others(context, instance, request)


def _plan_of(row: InstanceAction | None) -> _Plan:
    """Read the plan from the first step of the action record."""
    detail = instance_actions.first_detail(row) if row is not None else {}
    return _Plan(detail.get("preserve_ephemeral") == "true", detail.get("volume_image", ""))


def _others(context: RequestContext, instance: Instance, request: Rebuild) -> dict[str, Any]:
    """Validate the parameters other than the image and return the columns to change."""
    limits = quotas.bounds_of(instance.project_id, context.user_id).least
    columns: dict[str, Any] = {
        **check_changes(request.changes),
        "injected_files": check_files(request.injected_files, limits),
        "admin_password": sealed(request.admin_password),
        "rescue_image_id": None,
        "password": "",
    }
    if request.metadata is not None:
        columns["metadata"] = check_metadata(request.metadata, limits)
    if request.key_name is not UNSET:
        key = _key(instance, request.key_name)
        columns |= {"key_name": key and key.name, "public_key": key and key.public_key}
    if request.user_data is not UNSET:
        check_user_data(request.user_data)
        columns["user_data"] = request.user_data or None
    if request.trusted_certificates is not UNSET:
        policy.enforce(context, "os_compute_api:servers:rebuild:trusted_certs")
        columns["trusted_certificates"] = request.trusted_certificates and list(request.trusted_certificates)
    return columns


def _check_fit(instance: Instance, image: Image) -> None:
    copy = instance.flavor
    flavor = Flavor(name=copy["name"], memory_mb=copy["memory_mb"], root_gb=copy["root_gb"])
    try:
        check_fit(flavor, image)
        check_disk(copy, image)
        companions(image, instance.project_id)
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field="imageRef") from error


def _key(instance: Instance, name: str | None) -> KeyPair | None:
    """Return a key pair of the server's owner, who may be a different user than the caller. None if
    ``name`` is None.
    """
    if name is None:
        return None
    try:
        return KeyPair.objects.get(user_id=instance.user_id, name=name)
    except KeyPair.DoesNotExist as error:
        raise InvalidInputError("Invalid key_name provided.", field="key_name") from error
