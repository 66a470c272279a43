"""Messages of services in the terms of the pages, and sentences for errors with advice."""

import re
from collections.abc import Mapping

from provisioning.common.errors import NovellaError
from provisioning.compute.actions.registry import words_of_tasks
from provisioning.network import errors

_ID = r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
_PREFIX = re.compile(
    r"(?:Invalid input(?: received)?(?: for (?:field/attribute |query parameters )?[\w:]+)?(?:\. Reason)?[:.] "
    r"|Invalid volume: |Bad \w+ request: |Block Device Mapping is Invalid: "
    r"|Server disk was unable to be resized because: "
    r"|URI for web-download does not pass filtering: (?:the given one|\S+): )"
)
_POLICY = re.compile(r"Policy doesn't allow \S+ to be performed\.?.*", re.DOTALL)
_BUSY = re.compile(rf"Cannot '[\w ]+' instance {_ID} while it is in (?:task_state|vm_state) (\S+)")
_RECORD = re.compile(rf"\b(image|volume|snapshot|network|subnet|router|port):? {_ID}", re.IGNORECASE)
_KEPT = re.compile(r"(\u2068.*?\u2069|(?<!\w)'[^']*'(?!\w)|\"[^\"]*\")", re.DOTALL)
"""Names and quoted texts, which are not changed."""
_BEFORE, _AFTER = r"(?<![\w:/.@=\"'-])", r"(?![\w/@=-]|[.:]\w)"
_SERVER = re.compile(rf"(?<!name )(?<!DNS ){_BEFORE}[Ss]erver(s?){_AFTER}(?! group)")
"""The APIs' term for an instance."""
_FIRST_WORD = re.compile(rf"[a-z]+{_AFTER}")
_FIELDS = (
    "actor_domain_id|attach_status|attachment_id|availability_zone|different_host|disk_format|domain_id|"
    "enable_dhcp|ends_at|expires_at|fixed_ips|floating_ip|group_id|host_id|host_name|host_routes|"
    "hypervisor_hostname|image_id|instance_id|ip_address|ip_version|is_default|key_name|mac_address|member_id|"
    "migration_status|min_disk|min_ram|network_id|network_type|new_type|physical_network|port_forwarding|port_id|"
    "port_range_max|port_range_min|port_security_enabled|project_id|public_key|public_url|read_only|region_id|"
    "request_id|role_domain_id|router_id|same_host|security_group|security_groups|segmentation_id|server_id|"
    "service_id|size_iops_sec|snapshot_id|subnet_id|system_scope|task_id|task_state|tenant_id|token_scope|"
    "trustor_id|user_data|user_domain_id|user_id|user_ids|user_name|vm_state|volume_id|volume_type"
)
_FIELD = re.compile(rf"{_BEFORE}(?:{_FIELDS}){_AFTER}")
"""Field names of the APIs with underscores; other such words may be names of resources."""
NOT_ALLOWED = "Your roles do not allow this."
WORDS = {
    "flavorRef": "size",
    "imageRef": "image",
    "min_count": "number of instances",
    "max_count": "number of instances",
    "volumeId": "volume",
}
"""Names in the APIs → the pages' terms for them."""


def plain(text: str, labels: Mapping[str, str] | None = None, *, within: bool = False) -> str:
    """Return an error without the APIs' prefixes, rules, ids and field names; names of resources are kept.

    ``labels``: field name → its label on the page. ``within``: a prefix of the text was removed.
    """
    if _POLICY.match(text):
        return NOT_ALLOWED
    if busy := _BUSY.fullmatch(text):
        doing = words_of_tasks.get(busy[1], busy[1]).replace("_", " ").lower()
        doing = "in error" if doing == "error" else doing
        return f"The instance does not allow this in its current state: it is {doing}."
    known = {**WORDS, **(labels or {})}
    begun = _PREFIX.sub("", text, count=1)
    parts = _KEPT.split(begun)
    parts[::2] = [_reworded(part, known) for part in parts[::2]]
    sentence = "".join(parts)
    word, before = _FIRST_WORD.match(sentence), _FIRST_WORD.match(text)
    if word and (within or begun != text or not before or before[0] != word[0]):
        return sentence[:1].upper() + sentence[1:]
    return sentence  # a whole error that begins with a lower-case letter begins with a name


def _reworded(text: str, known: Mapping[str, str]) -> str:
    text = _RECORD.sub(lambda match: f"the {match[1].lower()}", text)
    for name, label in known.items():
        if "_" in name or any(each.isupper() for each in name):
            text = re.sub(f"{_BEFORE}{re.escape(name)}{_AFTER}", _within(label).replace("\\", r"\\"), text)
    text = _SERVER.sub(lambda match: f"{'I' if match[0][0] == 'S' else 'i'}nstance{match[1]}", text)
    return _FIELD.sub(lambda match: match[0].replace("_", " "), text)


def _within(label: str) -> str:
    """Return a label for use within a sentence: in lower case, unless it is a name or an abbreviation."""
    return label if any(each.isupper() for each in label[1:]) else label[:1].lower() + label[1:]


SENTENCES: Mapping[type[NovellaError], str] = {
    errors.NetworkInUseError: "The network is still in use: delete or disconnect its ports first.",
    errors.ExternalNetworkInUseError: "Floating IPs or routers need the network to be external.",
    errors.InvalidSharedSettingError: "Other projects use the network: it must stay shared.",
    errors.SubnetInUseError: "Addresses of the subnet are still in use: delete or disconnect their ports first.",
    errors.GatewayIpInUseError: "A router uses the gateway address: disconnect it first.",
    errors.RouterInUseError: "Networks or floating IPs are still connected to the router: remove these first.",
    errors.RouterInterfaceInUseByFloatingIPError: ("Floating IPs use this interface: disassociate them first."),
    errors.RouterInterfaceInUseByRouteError: "Extra routes use this interface: remove them first.",
    errors.RouterExternalGatewayInUseByFloatingIpError: ("Floating IPs use the gateway: disassociate them first."),
    errors.PortSecurityAndIPRequiredForSecurityGroupsError: (
        "Security groups need port security and an address: select no group, or enable port security."
    ),
    errors.PortSecurityPortHasSecurityGroupError: (
        "Security groups need port security: remove the port's groups first."
    ),
    errors.AddressPairAndPortSecurityRequiredError: (
        "Without port security the port can send from every address: leave this empty."
    ),
    errors.SecurityGroupCannotRemoveDefaultError: "The default group of a project cannot be deleted.",
}
