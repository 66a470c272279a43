"""Orphans on the host: directories and TPM keys without a domain, and domains that are not Novella's."""

from typing import Any
from uuid import UUID

import libvirt

from compute_agent.contract.messages import Leftover
from compute_agent.virt.libvirt.connection import Connection, translated
from compute_agent.virt.libvirt.domain_xml import NAMESPACE, read_mark
from compute_agent.virt.libvirt.paths import HostPaths


def listed(hypervisor: Connection, paths: HostPaths) -> list[Leftover]:
    """List the orphans. Nothing is changed.

    The directories are read before the domains, so that a directory whose domain is just being created is not listed.
    """
    places = (paths.instances, paths.tpm_keys)
    found = {path.name for place in places if place.is_dir() for path in place.iterdir()}
    folders = sorted(name for name in found if not name.startswith("."))  # not the host's own mark
    ours, foreign = set(), []
    with translated("list what is on it"):
        for domain in hypervisor.get().listAllDomains():
            marked = _marked(domain)
            if marked:
                ours.add(domain.UUIDString())
            elif marked is False:
                foreign.append(domain.name())
    leftovers = [Leftover(kind="folder", name=name, subject_id=_uuid(name)) for name in folders if name not in ours]
    return leftovers + [Leftover(kind="foreign_domain", name=name) for name in sorted(foreign)]


def _marked(domain: Any) -> bool | None:
    """Return whether a domain has Novella's mark; None if it no longer exists."""
    try:
        read_mark(domain.UUIDString(), domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE))
    except ValueError:
        return False
    except libvirt.libvirtError as error:
        return None if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN else False
    return True


def _uuid(name: str) -> str:
    try:
        return str(UUID(name))
    except ValueError:
        return ""
