"""The hosts' agents: enrolment, credentials, liveness, resource audits, and comparing their guests with the records."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import uuid
from datetime import timedelta
from itertools import islice

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from compute_agent.contract.commands import images_of
from compute_agent.contract.messages import (
    CONTRACT_VERSION,
    Enrol,
    Hello,
    Owned,
    Ownership,
    ResourceAudit,
    decode_command_body,
)
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError, NotFoundError
from provisioning.compute import notifications
from provisioning.compute.models import Host, Instance, JoinToken
from provisioning.compute.states import TaskState, VmState
from provisioning.conductor import cached_images
from provisioning.conductor.guests import compare, take_belongings
from provisioning.images.models import Image
from provisioning.rpc import hosts
from provisioning.rpc.models import HostCommand

log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")
MIN_CREDENTIAL = 32
"""Characters of an agent's own credential."""
_BAD_TOKEN = "The join token is unknown, used, expired or meant for another host."  # noqa: S105 - a sentence
_MOST = 2_147_483_647
SENDING = frozenset(
    {TaskState.IMAGE_SNAPSHOT, TaskState.IMAGE_BACKUP, TaskState.IMAGE_UPLOADING}
    | {TaskState.SHELVING, TaskState.SHELVING_IMAGE_UPLOADING}
)
"""Tasks in which a host sends an image."""


def create_join_token(host_name: str = "", lifetime: int = 3600) -> str:
    """Return a one-time permission to enrol, good for ``lifetime`` seconds; with ``host_name``, for that host only."""
    token = secrets.token_urlsafe(32)
    JoinToken.objects.create(
        digest=_digest(token), host_name=host_name, expires_at=timezone.now() + timedelta(seconds=lifetime)
    )
    return token


def enrol(message: Enrol) -> Host:
    """Take a new host in: the join token is used up and the agent's credential becomes the host's.

    An enrolment that is repeated because its answer was lost (same credential) succeeds again.  A token made for a
    host's name also replaces the credential of a host that has lost its own; what that host was ordered is sent again.
    Raises NotAuthenticatedError, InvalidInputError.
    """
    _check_contract(message.contract)
    if not _NAME.fullmatch(message.host):
        raise InvalidInputError("A host's name has letters, digits, '.', '_' and '-'.", field="host")
    if len(message.credential) < MIN_CREDENTIAL:
        raise InvalidInputError(f"The credential must have at least {MIN_CREDENTIAL} characters.", field="credential")
    digest, now = _digest(message.credential), timezone.now()
    given = JoinToken.objects.filter(digest=_digest(message.join_token))
    if not given.exists():  # strangers guess without holding up those who write
        raise NotAuthenticatedError(_BAD_TOKEN)
    with transaction.atomic():
        host = Host.objects.filter(name=message.host).first()
        if host is not None and hmac.compare_digest(host.credential_digest, digest):
            return host
        tokens = given.filter(host_name__in=["", message.host], used_at=None, expires_at__gt=now)
        if host is not None and host.credential_digest:  # an open token takes in new hosts, it does not replace one
            tokens = tokens.filter(host_name=message.host)
        if not tokens.update(used_at=now):
            raise NotAuthenticatedError(_BAD_TOKEN)
        new = host is None
        if host is None:
            host = _new_host(message.host)
        host.credential_digest, host.agent_version, host.contract_version = (
            digest,
            _line(message.agent_version, 40),
            message.contract,
        )
        host.save(update_fields=["credential_digest", "agent_version", "contract_version"])
        if new:
            notifications.of_host(host, "create")
        hosts.send_again(host.id)
    log.info("Host %s has joined.", host.name)
    return host


def _new_host(name: str) -> Host:
    try:
        with transaction.atomic():
            return Host.objects.create(
                name=name,
                cpu_allocation_ratio=settings.CPU_ALLOCATION_RATIO,
                ram_allocation_ratio=settings.RAM_ALLOCATION_RATIO,
                disk_allocation_ratio=settings.DISK_ALLOCATION_RATIO,
                reserved_memory_mb=settings.RESERVED_HOST_MEMORY_MB,
                reserved_disk_gb=settings.RESERVED_HOST_DISK_GB,
            )
    except IntegrityError as error:
        raise NotAuthenticatedError("Another agent is joining under this name.") from error


def authenticate(name: str, credential: str) -> Host:
    """Return the host whose credential this is.  Raises NotAuthenticatedError, the same for an unknown name."""
    host = Host.objects.filter(name=name).first()
    known = host.credential_digest if host is not None else ""
    if host is None or not known or not hmac.compare_digest(known, _digest(credential)):
        raise NotAuthenticatedError("The host is not known or its credential is wrong.")
    return host


def connected(host_id: uuid.UUID, hello: Hello) -> None:
    """The host's link stands: note it, and compare the guests it has with the records.

    Raises NotAuthenticatedError when it speaks another version of the contract.
    """
    _check_contract(hello.contract)
    Host.objects.filter(id=host_id).update(
        connected=True,
        last_seen_at=timezone.now(),
        agent_version=_line(hello.agent_version, 40),
        contract_version=hello.contract,
    )
    compare(host_id, hello.guests, complete=True)


def ownership(host_id: uuid.UUID) -> Ownership:
    """Return what a host holds by the records: every server that is there or on its way there, with its newest attempt.

    A server that is being deleted is still there; one whose place only waits for the host's word is not.
    """
    rows = Instance.objects.filter(host_id=host_id).exclude(vm_state=VmState.DELETED).order_by("id")
    pairs = rows.values_list("id", "attempt")
    return Ownership(instances=[Owned(instance_id=str(key), attempt=attempt) for key, attempt in pairs])


def heartbeat(host_id: uuid.UUID) -> None:
    """The host is alive."""
    Host.objects.filter(id=host_id).update(connected=True, last_seen_at=timezone.now())


def disconnected(host_id: uuid.UUID) -> None:
    """The host's link has ended.  The host counts as up until its heartbeats are missed: a link is quickly dialled
    anew.
    """
    Host.objects.filter(id=host_id).update(connected=False)


def audit(host_id: uuid.UUID, report: ResourceAudit) -> None:
    """Record what the host has and uses, and compare its guests with the records."""
    known = Host.objects.filter(id=host_id).update(
        last_seen_at=timezone.now(),
        vcpus_total=_amount(report.vcpus),
        memory_mb_total=_amount(report.memory_mb),
        disk_gb_total=_amount(report.disk_gb),
        memory_mb_used=_amount(report.memory_mb_used),
        disk_gb_used=_amount(report.disk_gb_used),
        running_vms=_amount(report.running_vms),
        hypervisor_type=_line(report.hypervisor_type, 40),
        hypervisor_version=_amount(report.hypervisor_version),
        hypervisor_hostname=_line(report.hypervisor_hostname, 255),
        architecture=_line(report.architecture, 40),
        host_ip=_line(report.host_ip, 45),
        cpu_info={_line(name, 40): _line(said, 4096) for name, said in islice(report.cpu_info.items(), 50)},
        cached_images=[_line(name, 255) for name in report.cached_images[:1000]],
        uptime=_line(report.uptime, 255),
    )
    if known:
        cached_images.keep(host_id, report.cached_images)
    compare(host_id, report.guests, complete=False)
    if known:
        take_belongings(host_id, report)


def image_for_order(host_id: uuid.UUID, instance_id: uuid.UUID, image_id: uuid.UUID) -> Image:
    """Return an image whose bits the host may have now: it holds an unfinished order that needs them, for an instance
    that waits for it.

    Raises NotFoundError for anything else.
    """
    instance = Instance.objects.filter(id=instance_id).exclude(task_state=None).first()
    if instance is not None and instance.task_state != TaskState.DELETING:
        orders = HostCommand.objects.filter(
            host_id=host_id, instance_id=instance_id, attempt=instance.attempt, finished_at=None
        ).exclude(kind="destroy_request")
        needed = set[str]().union(*(images_of(decode_command_body(order.body)) for order in orders))
        image = Image.objects.filter(id=image_id, status=Image.Status.ACTIVE).first()
        if image is not None and str(image_id) in needed:
            return image
    raise NotFoundError("There is no image for this host here.")


def image_from_order(host_id: uuid.UUID, instance_id: uuid.UUID, image_id: uuid.UUID) -> Image:
    """Return an image whose bits the host may send now: an unfinished order names it, for an instance that waits for it
    and is there.

    Raises NotFoundError for anything else, and for an image that was deleted.
    """
    instance = Instance.objects.filter(id=instance_id, host_id=host_id).first()
    if instance is not None and instance.task_state in SENDING:
        orders = HostCommand.objects.filter(
            host_id=host_id,
            instance_id=instance_id,
            attempt=instance.attempt,
            kind="snapshot_request",
            finished_at=None,
        )
        named = {getattr(decode_command_body(order.body), "image_id", "") for order in orders}
        image = Image.objects.filter(id=image_id).exclude(status=Image.Status.DELETED).first()
        if image is not None and str(image_id) in named:
            return image
    raise NotFoundError("There is no image for this host here.")


def _check_contract(version: int) -> None:
    if version != CONTRACT_VERSION:
        raise NotAuthenticatedError(
            f"This cloud speaks version {CONTRACT_VERSION} of the agents' contract, the agent version {version}."
        )


def _amount(value: int) -> int:
    return max(0, min(value, _MOST))


def _line(text: str, longest: int) -> str:
    """Return the text of a host, which is not trusted, without what is not printable, cut."""
    return "".join(character for character in text[:longest] if character.isprintable())


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
