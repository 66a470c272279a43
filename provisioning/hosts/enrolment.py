"""Enrolment of hosts: join tokens, and the credentials with which agents authenticate from then on."""

import hashlib
import hmac
import logging
import re
import secrets
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from compute_agent.contract.messages import CONTRACT_VERSION, OLDEST_CONTRACT, Enrol
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.common.values.text import one_line
from provisioning.hosts import commands, machines, notifications
from provisioning.hosts.models import Host, JoinToken

log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")
MIN_CREDENTIAL = 32
"""Minimum length of an agent's credential, in characters."""
_BAD_TOKEN = "The join token is unknown, used, expired or for another host."  # noqa: S105 - a sentence


def create_join_token(host_name: str = "", lifetime: int = 3600) -> str:
    """Return a one-time token for enrolment, valid for ``lifetime`` seconds; with ``host_name`` only for that host."""
    token = secrets.token_urlsafe(32)
    JoinToken.objects.create(
        digest=digest_of(token), host_name=host_name, expires_at=timezone.now() + timedelta(seconds=lifetime)
    )
    return token


def enrol(message: Enrol) -> Host:
    """Enrol a host: the join token becomes invalid, and the agent's credential becomes the host's.

    A repeated enrolment with the same credential succeeds, because the first answer may have been lost. A token for
    this host's name also replaces the credential of an enrolled host, which has lost it or moved to another machine.
    The host's unfinished commands are sent again. Raises NotAuthenticatedError, InvalidInputError.
    """
    check_contract(message.contract)
    if not _NAME.fullmatch(message.host):
        raise InvalidInputError("A host's name has letters, digits, '.', '_' and '-'.", field="host")
    check_credential(message.credential)
    machines.check_form(message.machine)
    digest, now = digest_of(message.credential), timezone.now()
    rows = JoinToken.objects.filter(digest=digest_of(message.join_token))
    if not rows.exists():  # guesses take no write lock
        raise NotAuthenticatedError(_BAD_TOKEN)
    with transaction.atomic():
        host = Host.objects.filter(name=message.host).first()
        known = host is not None and hmac.compare_digest(host.credential_digest, digest)
        if host is not None and known and host.machine_id == message.machine:
            return host
        tokens = rows.filter(host_name__in=["", message.host], used_at=None, expires_at__gt=now)
        if host is not None and host.credential_digest:  # a token without a name cannot replace a host
            tokens = tokens.filter(host_name=message.host)
        if not tokens.update(used_at=now):
            raise NotAuthenticatedError(_BAD_TOKEN)
        new = host is None
        if host is None:
            host = _new_host(message.host)
        joined = {
            "credential_digest": digest,
            "next_credential_digest": "",
            "credential_wanted_at": None,
            "machine_id": message.machine,
            "second_machine_at": None,
            "second_machine_address": "",
            "agent_version": one_line(message.agent_version, 40),
            "contract_version": message.contract,
        }
        for name, value in joined.items():
            setattr(host, name, value)
        host.save(update_fields=list(joined))
        if new:
            notifications.notify(host, "create")
        commands.send_again(host.id)
    log.info("Host %s has enrolled.", host.name)
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
        raise NotAuthenticatedError("Another agent is enrolling with this name.") from error


def authenticate(name: str, credential: str) -> Host:
    """Return the host with this credential; during a rotation the old and the new one are valid.

    Raises NotAuthenticatedError, with the same message for an unknown name and for a wrong credential.
    """
    host = Host.objects.filter(name=name).first()
    known = host.credential_digest if host is not None else ""
    digest = digest_of(credential)
    if host is not None and host.next_credential_digest and hmac.compare_digest(host.next_credential_digest, digest):
        return host
    if host is None or not known or not hmac.compare_digest(known, digest):
        raise NotAuthenticatedError("The host is not known or its credential is wrong.")
    return host


def uses_next(host: Host, credential: str) -> bool:
    """Whether the credential with which the host authenticated is its new one, which is not yet in use."""
    return bool(host.next_credential_digest) and hmac.compare_digest(host.next_credential_digest, digest_of(credential))


def check_credential(credential: str) -> None:
    """Raise InvalidInputError for a credential that is too short."""
    if len(credential) < MIN_CREDENTIAL:
        raise InvalidInputError(f"The credential must have at least {MIN_CREDENTIAL} characters.", field="credential")


def check_contract(version: int) -> None:
    """Raise NotAuthenticatedError if the agent's contract is newer than the portal's, or too old for it."""
    if OLDEST_CONTRACT <= version <= CONTRACT_VERSION:
        return
    advice = "Upgrade the portal first." if version > CONTRACT_VERSION else "Upgrade the agent."
    raise NotAuthenticatedError(
        f"The portal accepts versions {OLDEST_CONTRACT} to {CONTRACT_VERSION} of the agents' contract, the agent"
        f" has version {version}. {advice}"
    )


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
