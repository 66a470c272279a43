"""ModifyInstanceMetadataOptions, and the options of a launch.

The host applies ``HttpTokens`` and ``HttpPutResponseHopLimit``; the other options are fixed.
"""

from collections.abc import Mapping
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.instances import related as reading
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.compute.services.metadata_options import set_metadata_options
from provisioning.ec2 import ids, metadata_options
from provisioning.ec2.metadata_options import DEFAULT_HOPS, DEFAULT_TOKENS
from provisioning.ec2.models import MetadataOptions

MOST_HOPS = 64
_FIXED = {"HttpEndpoint": "enabled", "HttpProtocolIpv6": "disabled", "InstanceMetadataTags": "disabled"}
"""Options with a fixed value; any other value is rejected."""


def read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns for the ``MetadataOptions`` of a request. Raises Ec2Error."""
    for name, present in _FIXED.items():
        if given.get(name, present) != present:
            raise errors.unsupported(f"MetadataOptions.{name} is {present} for every instance of this cloud")
    columns: dict[str, Any] = {}
    tokens, hops = given.get("HttpTokens"), given.get("HttpPutResponseHopLimit")
    if tokens is not None:
        columns["http_tokens"] = tokens
    if hops is not None:
        if not 1 <= hops <= MOST_HOPS:
            raise errors.invalid_value("HttpPutResponseHopLimit", hops, f"It must be from 1 to {MOST_HOPS}.")
        columns["hop_limit"] = hops
    return columns


def shape(row: MetadataOptions | None) -> dict[str, Any]:
    """Return the representation of the options."""
    return {
        "State": "applied",
        "HttpTokens": row.http_tokens if row else DEFAULT_TOKENS,
        "HttpPutResponseHopLimit": row.hop_limit if row else DEFAULT_HOPS,
        **_FIXED,
    }


@action(
    "ModifyInstanceMetadataOptions",
    "os_compute_api:servers:update",
    takes="InstanceId HttpTokens HttpPutResponseHopLimit HttpEndpoint HttpProtocolIpv6 InstanceMetadataTags",
    missing="InvalidInstanceID.NotFound",
)
def modify_instance_metadata_options(call: Call) -> dict[str, Any]:
    """Update the metadata options of an instance."""
    (instance,) = reading.wanted(call, [call.arguments["InstanceId"]])
    columns = read(call.arguments)
    set_metadata_options(call.context, instance.id, columns)
    return {
        "InstanceId": ids.id_of(names.INSTANCE.prefix, instance.id),
        "InstanceMetadataOptions": shape(metadata_options.options_of([instance.id]).get(instance.id)),
    }
