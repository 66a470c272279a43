"""EC2 error codes of service errors (EC2 API reference, "Error codes")."""

import logging

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError
from django.http import UnreadablePostError

from portal.api.ec2.frame import Action, Ec2Error
from provisioning.common.database import outage
from provisioning.common.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    NotOfferedError,
    NovellaError,
    OverQuotaError,
    TooLargeError,
    TooManyRequestsError,
    UnavailableError,
)
from provisioning.ec2 import ids
from provisioning.ec2.client_tokens import MismatchError
from provisioning.network.errors import IpAddressGenerationFailureError, OutOfAddressesError
from provisioning.volumes.errors import InvalidSnapshotError, InvalidVolumeError

logger = logging.getLogger(__name__)

OVER_QUOTA = {
    "instances": "InstanceLimitExceeded",
    "cores": "VcpuLimitExceeded",
    "ram": "InstanceLimitExceeded",
    "key_pairs": "KeyPairLimitExceeded",
    "server_groups": "PlacementGroupLimitExceeded",
    "volumes": "VolumeLimitExceeded",
    "gigabytes": "VolumeLimitExceeded",
    "snapshots": "SnapshotLimitExceeded",
    "floatingips": "AddressLimitExceeded",
    "security_groups": "SecurityGroupLimitExceeded",
    "security_group_rules": "RulesPerSecurityGroupLimitExceeded",
    "networks": "VpcLimitExceeded",
    "subnets": "SubnetLimitExceeded",
    "routers": "RouteTableLimitExceeded",
    "ports": "NetworkInterfaceLimitExceeded",
    "fixed_ips": "PrivateIpAddressLimitExceeded",
    "tags of a resource": "TagLimitExceeded",
}
"""Resource of a quota → code, also for resources of a volume type (``volumes_fast``)."""
RESOURCE = "ResourceLimitExceeded"
"""The code for any other resource."""
_OF_ANY_ACTION: tuple[tuple[type[NovellaError], str], ...] = (
    (MismatchError, "IdempotentParameterMismatch"),
    (OutOfAddressesError, "InsufficientFreeAddressesInSubnet"),
    (IpAddressGenerationFailureError, "InsufficientFreeAddressesInSubnet"),
)
"""Service errors with the same code in every action."""
_GENERAL: tuple[tuple[type[Exception], int, str], ...] = (
    (TooManyRequestsError, 503, "RequestLimitExceeded"),
    (NotAuthenticatedError, 401, "AuthFailure"),
    (InvalidInputError, 400, "InvalidParameterValue"),
    (ForbiddenError, 403, "UnauthorizedOperation"),
    (TooLargeError, 400, "InvalidParameterValue"),
    (UnavailableError, 503, "Unavailable"),
    (NotOfferedError, 400, "UnsupportedOperation"),
    (RequestDataTooBig, 413, "RequestEntityTooLarge"),
    (SuspiciousOperation, 400, "InvalidParameterValue"),
    (UnreadablePostError, 400, "MalformedQueryString"),
)


def code_of(error: Exception, action: Action | None, request_id: str) -> tuple[int, str, str]:
    """Return status, code and message of an error; an unexpected error is logged, and its message has only the request
    id.
    """
    if isinstance(error, Ec2Error):
        return error.status, error.ec2_code, _with_ids(error.message)
    if isinstance(error, NovellaError):
        status, code, message = _of_service(error, action)
        return status, code, _with_ids(message)
    if outage.is_outage(error):
        logger.warning("The database does not answer: %s", error)
        return 503, "Unavailable", outage.message_of(error)
    for kind, status, code in _GENERAL:
        if isinstance(error, kind):
            return status, code, str(error) or "The request cannot be read"
    logger.error("Unexpected error in %s", request_id, exc_info=error)
    return 500, "InternalError", f"An internal error has occurred. Report the request id {request_id} to your operator."


def _with_ids(message: str) -> str:
    """Return a service's message with EC2 ids instead of UUIDs, if the database can be reached."""
    try:
        return ids.in_words(message)
    except DatabaseError:
        return message


def _of_service(error: NovellaError, action: Action | None) -> tuple[int, str, str]:
    for kind, code in _OF_ANY_ACTION:
        if isinstance(error, kind):
            return 400, code, error.message
    if isinstance(error, OverQuotaError):
        own = action.over_quota if action is not None else {}
        resource = error.resource
        of_type = next((code for name, code in OVER_QUOTA.items() if resource.startswith(f"{name}_")), RESOURCE)
        return 400, own.get(resource, OVER_QUOTA.get(resource, of_type)), error.message
    if isinstance(error, NotFoundError) and action is not None:
        return 400, action.missing, error.message
    if isinstance(error, ConflictError | InvalidVolumeError | InvalidSnapshotError) and action is not None:
        return 400, action.conflict, error.message
    general = next(((status, code) for kind, status, code in _GENERAL if isinstance(error, kind)), None)
    status, code = general or (400, "InvalidParameterValue")
    return status, code, error.message
