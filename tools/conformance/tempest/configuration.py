"""tempest.conf: the configuration of tempest for a cloud, from its facts and the command line."""

from __future__ import annotations

import configparser
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.bench.cloud import BenchError
from tools.conformance.tempest.facts import Facts, Flavor, Image

IMAGE = "image"
"""The name of a file in the workspace: the image from which guests are launched."""
Settings = dict[str, dict[str, str]]
"""Section → option → value."""
OFF = ("swift", "horizon")
"""Services without tests in any of the lists."""
FEATURES = {"resize": "true", "vnc_console": "true", "stable_rescue": "true"}
"""Features of Compute that the API does not report, as in a common cloud of KVM hosts. ``--set`` overrides them."""
NOVELLA = {
    "block_migration_for_live_migration": "true",
    "volume_backed_live_migration": "true",
    "live_migrate_back_and_forth": "true",
    "serial_console": "true",
    "personality": "true",
    "swap_volume": "true",
    "scheduler_enabled_filters": "all",
}
"""Differences of this project's clouds from ``FEATURES``. Such a cloud is recognized by the vendor of its storage
pools.
"""
VENDOR = "Novella"


@dataclass(frozen=True)
class Administrator:
    """The account that creates projects and users for the suite. If ``ca_file`` is empty, the system's CA
    file is used.
    """

    auth_url: str
    username: str
    password: str
    project: str
    user_domain: str = "Default"
    project_domain: str = "Default"
    region: str = "RegionOne"
    ca_file: str = ""
    insecure: bool = False


def settings(facts: Facts, admin: Administrator, workspace: Path, *, ssh: bool = False) -> Settings:
    """Return tempest's configuration. With ``ssh``, tempest signs in to guests, also to guests of an image that it
    uploads from ``IMAGE``.

    Raises BenchError if launches are impossible.
    """
    version_at = admin.auth_url.rstrip("/").removesuffix("/v3").removesuffix("/v2.0")
    found: Settings = {
        "DEFAULT": {"log_dir": str(workspace / "logs"), "debug": "false", "use_stderr": "false"},
        "oslo_concurrency": {"lock_path": str(workspace / "locks")},
        "auth": {
            "use_dynamic_credentials": "true",
            "admin_username": admin.username,
            "admin_password": admin.password,
            "admin_project_name": admin.project,
            "admin_user_domain_name": admin.user_domain,
            "admin_project_domain_name": admin.project_domain,
            "admin_domain_name": admin.user_domain,
        },
        "identity": {
            "uri_v3": f"{version_at}/v3",
            "auth_version": "v3",
            "region": admin.region,
            "disable_ssl_certificate_validation": _yes(admin.insecure),
        }
        | ({"ca_certificates_file": admin.ca_file} if admin.ca_file else {}),
        "identity-feature-enabled": {"trust": _yes(facts.trusts), "access_rules": _yes(facts.access_rules)},
        "service_available": _services(facts),
        "validation": {"run_validation": _yes(ssh)},
        "network": _network(facts),
        "network-feature-enabled": _network_features(facts),
    }
    if "compute" in facts.services:
        found |= _compute(facts)
    if "image" in facts.services:
        found |= _image(facts)
    if facts.pools or facts.volume_microversion:
        found |= _volume(facts)
    if ssh:
        found["scenario"] = {"img_file": str(workspace / IMAGE), "img_disk_format": facts.images[0].disk_format}
        found["validation"]["image_ssh_user"] = found["validation"]["image_alt_ssh_user"] = (
            facts.images[0].user or "root"
        )
    return found


def _yes(value: object) -> str:
    return "true" if value else "false"


def _services(facts: Facts) -> dict[str, str]:
    names = {"nova": "compute", "glance": "image", "neutron": "network"}
    there = {name: _yes(kind in facts.services) for name, kind in names.items()}
    volumes = facts.services & {"block-storage", "volumev3", "volume"}
    return there | {"cinder": _yes(volumes)} | dict.fromkeys(OFF, "false")


def _compute(facts: Facts) -> Settings:
    image, other, flavor, larger = chosen(facts)
    several = _yes(facts.hypervisors > 1)
    features = FEATURES | {"volume_multiattach": _yes(facts.multiattach_type)}
    features |= dict.fromkeys(("live_migration", "cold_migration", "can_migrate_between_any_hosts"), several)
    features |= NOVELLA if facts.vendor == VENDOR else {}
    return {
        "compute": {
            "image_ref": image.id,
            "image_ref_alt": other.id,
            "flavor_ref": flavor.id,
            "flavor_ref_alt": larger.id,
            "min_compute_nodes": str(min(facts.hypervisors, 2) or 1),
        }
        | ({"max_microversion": facts.compute_microversion} if facts.compute_microversion else {}),
        "compute-feature-enabled": features,
    }


def chosen(facts: Facts) -> tuple[Image, Image, Flavor, Flavor]:
    """Choose the two smallest images, and the two smallest flavors that fit both images.

    No property of the second flavor is smaller, as a resize requires. Raises BenchError if there are no such images or
    flavors.
    """
    if not facts.images:
        raise BenchError("there is no public image to launch from")
    image, other = (*facts.images, facts.images[0])[:2]
    disk, memory = (max(getattr(each, name) for each in (image, other)) for name in ("min_disk", "min_ram"))
    fitting = [size for size in facts.flavors if size.ram >= memory and (not size.disk or size.disk >= disk)]
    for number, flavor in enumerate(fitting):
        for larger in fitting[number + 1 :]:
            if larger.disk >= flavor.disk:
                return image, other, flavor, larger
    raise BenchError("there are no two flavors that the image fits, one not smaller than the other")


def _image(facts: Facts) -> Settings:
    return {
        "image": {
            "disk_formats": ",".join(facts.disk_formats),
            "container_formats": ",".join(facts.container_formats),
        },
        "image-feature-enabled": {"import_image": _yes("glance-direct" in facts.import_methods)},
    }


def _network(facts: Facts) -> dict[str, str]:
    if not facts.external_networks:
        return {}
    name, network = min(facts.external_networks.items())
    return {"public_network_id": network, "floating_network_name": name}


def _network_features(facts: Facts) -> dict[str, str]:
    aliases = set(facts.extensions)
    return {
        "api_extensions": ",".join(facts.extensions),
        "floating_ips": _yes("router" in aliases and facts.external_networks),
        "port_security": _yes("port-security" in aliases),
        "ipv6": "true",
        "ipv6_subnet_attributes": "true",
    }


def _volume(facts: Facts) -> Settings:
    names = sorted({str(pool["volume_backend_name"]) for pool in facts.pools})
    volume = {"storage_protocol": facts.pool("storage_protocol"), "vendor_name": facts.vendor}
    if facts.volume_microversion:
        volume["max_microversion"] = facts.volume_microversion
    if facts.multiattach_type:
        volume["volume_type_multiattach"] = facts.multiattach_type
    if len(names) > 1:
        volume["backend_names"] = ",".join(names)
    extended = _yes(any(str(pool.get("online_extend_support")) == "True" for pool in facts.pools))
    managed = _yes(any(str(pool.get("manage")) == "True" for pool in facts.pools))
    if facts.vendor == VENDOR:
        volume["manage_snapshot_ref"] = "source-name,snapshot-%s"
    return {
        "volume": volume,
        "volume-feature-enabled": {
            "backup": _yes(facts.backups),
            "multi_backend": _yes(len(names) > 1),
            "extend_attached_volume": extended,
            "extend_attached_encrypted_volume": extended,
            "manage_volume": managed,
            "manage_snapshot": _yes(managed == "true" and facts.vendor == VENDOR),
        },
    }


def with_changes(found: Settings, changes: Sequence[str]) -> Settings:
    """Return the settings with changes of the form ``SECTION.OPTION=VALUE``. Raises BenchError for any other form."""
    merged = {section: dict(options) for section, options in found.items()}
    for change in changes:
        where, sign, value = change.partition("=")
        section, dot, option = where.partition(".")
        if not (sign and dot and section and option):
            raise BenchError(f"{change} is not SECTION.OPTION=VALUE")
        merged.setdefault(section, {})[option] = value
    return merged


def text(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return the content of the file."""
    parser = configparser.RawConfigParser(default_section="")
    parser.read_dict(found)
    written = io.StringIO()
    parser.write(written)
    return written.getvalue().replace("$", "$$")
