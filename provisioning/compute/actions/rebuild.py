"""Rebuild: a server's disks are made anew from an image; its id, its size, its interfaces and addresses stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from compute_agent.contract.commands import RebuildRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.unset import UNSET, Unset
from provisioning.compute.actions.base import BROKE, Ending, HostAction, Prepared
from provisioning.compute.actions.registry import register
from provisioning.compute.actions.rescue import own_image
from provisioning.compute.flavor_and_image import check_disk, check_fit, check_image
from provisioning.compute.guest_spec import guest_spec
from provisioning.compute.launch.guest_data import check_files, check_user_data
from provisioning.compute.launch.request import InjectedFile
from provisioning.compute.models import Flavor, Instance, KeyPair
from provisioning.compute.outcome import Outcome
from provisioning.compute.passwords import sealed
from provisioning.compute.services.instances import Changes, check_changes
from provisioning.compute.services.metadata import check_metadata
from provisioning.compute.states import TaskState, VmState
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.images.selectors.companions import companions
from provisioning.quotas import selectors as quotas


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Everything a rebuild may say, by the names of the Compute API; unset or None: as it is."""

    image_id: str
    admin_password: str | None = None
    changes: Changes = field(default_factory=Changes)
    metadata: Mapping[str, str] | None = None
    injected_files: Sequence[InjectedFile] = ()
    preserve_ephemeral: bool = False
    key_name: str | Unset | None = UNSET
    """None: no key."""
    user_data: str | Unset | None = UNSET
    """Base64; None: none."""
    trusted_certificates: Sequence[str] | Unset | None = UNSET


class RebuildAction(HostAction[Rebuild, RebuildRequest]):
    """Make a server's disks anew; one that is stopped stays so.  The records say at once what was asked for."""

    key = record = api = notification = "rebuild"
    done = "Rebuilt"
    doing = "Rebuilding"
    rule = "os_compute_api:servers:rebuild"
    rule_description = "Make a server's disks anew from an image."
    takes_request = True
    from_states, task = (VmState.ACTIVE, VmState.STOPPED, VmState.ERROR), TaskState.REBUILDING
    ends = {"rebuilt": VmState.ACTIVE, "rebuilt_stopped": VmState.STOPPED}
    badly = BROKE
    status = {VmState.ACTIVE: "REBUILD", VmState.STOPPED: "REBUILD", VmState.ERROR: "REBUILD"}
    timeout, heavy_io = "BUILD_TIMEOUT", True
    body = RebuildRequest

    def prepare(self, context: RequestContext, instance: Instance, request: Rebuild) -> Prepared:
        """Check what is asked for; InvalidInputError with the ``field``, OverQuotaError, ForbiddenError."""
        return Prepared(_columns(context, instance, request), request.preserve_ephemeral)

    def command(self, instance: Instance, prepared: Prepared) -> RebuildRequest:
        """Describe the guest as it is to be."""
        return RebuildRequest(
            instance=guest_spec(instance, with_bits=True),
            start=instance.vm_state != VmState.STOPPED,
            preserve_ephemeral=prepared.value,
        )

    def finished(self, instance: Instance, body: RebuildRequest, outcome: Outcome) -> Ending:
        """Forget the password, which the guest has now; a server that was stopped is stopped."""
        forget = {"admin_password": ""}
        if not outcome.well:
            return Ending(columns=forget)
        end = "rebuilt" if body.start else "rebuilt_stopped"
        return Ending(end, {**forget, "launched_at": timezone.now()})


rebuild = register(RebuildAction()).begin


def _columns(context: RequestContext, instance: Instance, request: Rebuild) -> dict[str, Any]:
    """Check a rebuild and return what changes in the records."""
    foreign = context.project_id != instance.project_id  # an operator sees to another project's server
    same = foreign and request.image_id == str(instance.image_id)
    image = own_image(instance) if same else check_image(context, request.image_id)
    _check_fit(instance, image)
    limits = quotas.limits_of(instance.project_id)
    columns: dict[str, Any] = {
        **check_changes(request.changes),
        "image_id": image.id,
        "image_name": image.name,
        "image_properties": {str(key): str(value) for key, value in image.properties.items()},
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
    """Return a key pair of the server's owner, whoever asks; None for none."""
    if name is None:
        return None
    try:
        return KeyPair.objects.get(user_id=instance.user_id, name=name)
    except KeyPair.DoesNotExist as error:
        raise InvalidInputError("Invalid key_name provided.", field="key_name") from error
