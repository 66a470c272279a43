"""Seeds an empty cloud with the records for a first launch; existing records are unchanged."""

import hashlib
import ipaddress
import secrets
import string
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from provisioning.catalogue.index.reading import NONE, is_address
from provisioning.catalogue.services import refresh
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors as compute_selectors
from provisioning.compute.services.flavors import FlavorRequest, create_flavor
from provisioning.hosts import enrolment
from provisioning.identity.models import Project, User
from provisioning.identity.selectors.lookups import record_by
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.catalog import ensure_catalog
from provisioning.identity.services.domains import ensure_domain
from provisioning.identity.services.projects import ensure_project
from provisioning.identity.services.roles import ensure_role
from provisioning.identity.services.users import ensure_user
from provisioning.images import selectors as image_selectors
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.metadefs.services import loading as metadefs
from provisioning.network import selectors as network_selectors
from provisioning.network import services as network
from provisioning.network.models import Network
from provisioning.volumes.services.catalogue.types import ensure_default_type

DOMAIN_ID = "default"
PASSWORD_SIGNS = string.ascii_letters + string.digits
"""Characters of generated passwords. Other characters, such as a leading hyphen, could be mistaken for an option on a
command line.
"""
PASSWORD_LENGTH = 16
ROLES = {
    "admin": "Operates the cloud.",
    "manager": "Manages the people and projects of a domain, and moves a project's servers.",
    "member": "Updates the resources of a project.",
    "reader": "Reads the resources of a project.",
    "service": "Another service of the cloud.",
}
PROJECTS = {"admin": "For operators.", "demo": "A first project for tests."}
USERS: dict[str, dict[str, str]] = {"admin": {"admin": "admin", "demo": "admin"}, "demo": {"demo": "member"}}
"""User → project → role; the first project is the user's default project."""

FLAVORS: tuple[tuple[str, str, int, int, int], ...] = (
    ("0", "m1.nano", 1, 96, 1),
    ("1", "m1.tiny", 1, 512, 1),
    ("2", "m1.small", 1, 2048, 20),
    ("3", "m1.medium", 2, 4096, 40),
    ("4", "m1.large", 4, 8192, 80),
    ("6", "m1.micro", 1, 192, 1),
)
"""Id, name, vCPUs, memory in MiB, disk in GiB: the traditional sizes of OpenStack."""

NETWORK_NAME = "demo-net"
SUBNET_CIDR = "10.20.0.0/24"
EXTERNAL_NAME, ROUTER_NAME = "public", "demo-router"
IMAGE_NAME = "novella-guest"
IMAGE_SOURCE = "novella_source_sha512"
"""Image property with the digest of the file that it was created from."""
GUEST_PROPERTIES = {
    "os_distro": "novella",
    "os_type": "linux",
    "os_admin_user": "root",
    "architecture": "x86_64",
    "hw_qemu_guest_agent": "yes",
}
CHUNK = 1 << 20


@dataclass
class Seed:
    """The contents of the cloud after seeding, for ``bin/up``; it contains secrets.

    In ``passwords``, None stands for a password that was changed after seeding, because the new password is not known.
    """

    users: dict[str, str] = field(default_factory=dict)
    passwords: dict[str, str | None] = field(default_factory=dict)
    projects: dict[str, str] = field(default_factory=dict)
    join_tokens: dict[str, str] = field(default_factory=dict)
    network: dict[str, str] = field(default_factory=dict)
    external: dict[str, str] | None = None
    """The external network, if any."""
    image: dict[str, str] | None = None
    flavor: dict[str, str] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    """Descriptions of the created records."""


def people(secrets_dir: Path, seed: Seed) -> dict[str, RequestContext]:
    """Create the catalog, domain, roles, projects and users; return one operator's context for each project."""
    ensure_catalog()
    ensure_default_type()
    domain = ensure_domain(DOMAIN_ID, "Default")
    for role, description in ROLES.items():
        ensure_role(role, description=description)
    projects: dict[str, Project] = {}
    for name, description in PROJECTS.items():
        projects[name] = ensure_project(domain, name, description=description)
        seed.projects[name] = projects[name].id.hex
    users: dict[str, User] = {}
    for name, roles in USERS.items():
        users[name] = _user(name, projects[next(iter(roles))], secrets_dir, seed)
        for project, role in roles.items():
            assign_role(users[name], projects[project], role)
    grant(ensure_role("admin", description=ROLES["admin"]), user=users["admin"], system=True)
    return {name: _operator(users["admin"], project) for name, project in projects.items()}


def definitions(seed: Seed) -> None:
    """Load the built-in namespaces of metadata definitions that were never loaded."""
    loaded = metadefs.load()
    if loaded:
        seed.made.append(f"{len(loaded)} namespaces of metadata definitions")


def catalogue() -> None:
    """Read the index of the image catalogue, so that its page is complete immediately; nothing is downloaded."""
    if settings.CATALOGUE != NONE and not is_address(settings.CATALOGUE):
        refresh()


def _user(name: str, project: Project, secrets_dir: Path, seed: Seed) -> User:
    """Create the user with a generated password stored in ``secrets_dir``; an existing user keeps its password."""
    known = record_by(User, name=name, domain_id=DOMAIN_ID)
    path = secrets_dir / f"password-{name}"
    if known is None:
        if not path.exists():
            _write_secret(path, "".join(secrets.choice(PASSWORD_SIGNS) for _ in range(PASSWORD_LENGTH)))
        password = path.read_text().strip()
        known = ensure_user(project.domain, name, password=password, default_project=project)
        seed.made.append(f"user {name}")
        seed.passwords[name] = password
    else:
        password = path.read_text().strip() if path.exists() else ""
        seed.passwords[name] = password if password and known.check_password(password) else None
    seed.users[name] = known.id.hex
    return known


def _operator(user: User, project: Project) -> RequestContext:
    return RequestContext(
        user_id=user.id,
        user_name=user.name,
        project_id=project.id,
        project_name=project.name,
        roles=frozenset({"admin", "manager", "member", "reader"}),
    )


def flavors(context: RequestContext, seed: Seed) -> None:
    """Create the flavors whose names are missing."""
    known = {flavor.name for flavor in compute_selectors.flavors_for(context)}
    for flavor_id, name, vcpus, memory_mb, root_gb in FLAVORS:
        if name not in known:
            create_flavor(
                context,
                FlavorRequest(name=name, flavorid=flavor_id, vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb),
            )
            seed.made.append(f"flavor {name}")
    seed.flavor = {"id": FLAVORS[0][0], "name": FLAVORS[0][1]}


def networks(contexts: dict[str, RequestContext], seed: Seed) -> None:
    """Create ``demo-net``, owned by demo and shared, and allow SSH and ping in each project's ``default`` group."""
    project_id = _project_id(contexts["demo"])
    own = network_selectors.networks_for(contexts["demo"])
    net = next((each for each in own if (each.project_id, each.name) == (project_id, NETWORK_NAME)), None)
    if net is None:
        with transaction.atomic():
            net = network.create_network(project_id, NETWORK_NAME, shared=True, description="Shared by every project.")
            network.create_subnet(net, SUBNET_CIDR, name="demo-subnet")
        seed.made.append(f"network {NETWORK_NAME}")
    seed.network = {"id": str(net.id), "name": net.name}
    for context in contexts.values():
        _open_default_group(context)


def outside(contexts: dict[str, RequestContext], physical_network: str, gateways: list[str], seed: Seed) -> None:
    """Create the external network ``public``, and ``demo-router`` between it and ``demo-net``.

    ``gateways``: the gateway of each range with the prefix length, ``172.24.4.1/24``. An existing external network and
    its routers are unchanged.
    """
    known = [each for each in network_selectors.networks_for(contexts["admin"], all_projects=True) if each.external]
    if not known:
        with transaction.atomic():
            known = [_external_network(_project_id(contexts["admin"]), physical_network, gateways)]
            way_out = network.Gateway(known[0])
            router = network.create_router(_project_id(contexts["demo"]), name=ROUTER_NAME, gateway=way_out)
            for subnet in network_selectors.subnets_for(contexts["demo"]):
                if str(subnet.network_id) == seed.network["id"]:
                    network.add_interface_by_subnet(router, subnet)
        seed.made += [f"network {EXTERNAL_NAME}", f"router {ROUTER_NAME}"]
    first = next((each for each in known if each.is_default), known[0])
    seed.external = {"id": str(first.id), "name": first.name}


def _external_network(project_id: uuid.UUID, physical_network: str, gateways: list[str]) -> Network:
    made = network.create_network(
        project_id,
        EXTERNAL_NAME,
        external=True,
        is_default=True,
        network_type="flat",
        physical_network=physical_network,
        description="The external network: addresses of routers and floating IPs are allocated from it.",
    )
    for gateway in map(ipaddress.ip_interface, gateways):
        name = f"{EXTERNAL_NAME}-subnet" + ("-v6" if gateway.version == 6 else "")
        network.create_subnet(made, str(gateway.network), name=name, gateway_ip=str(gateway.ip), enable_dhcp=False)
    return made


def _open_default_group(context: RequestContext) -> None:
    """Allow SSH and ping in a new ``default`` group; later changes of the project are kept."""
    project_id = _project_id(context)
    if any(group.name == "default" for group in network_selectors.security_groups_for(context)):
        return
    with transaction.atomic():
        group = network.ensure_default_security_group(project_id)
        network.allow_ingress(group, "tcp", 22)
        network.allow_ingress(group, "icmp")


def _project_id(context: RequestContext) -> uuid.UUID:
    if context.project_id is None:
        raise InvalidInputError("Seeding needs a context with a project.")
    return context.project_id


def image(context: RequestContext, path: Path | None, seed: Seed, *, simulated: bool) -> None:
    """Upload the guest image as public, replacing it if the file has changed.

    Without a file, a simulated cloud gets a small generated raw image; a real cloud keeps its image.
    """
    known = [
        known_image
        for known_image in image_selectors.images_for(context)
        if known_image.name == IMAGE_NAME and known_image.project_id == context.project_id
    ]
    if path is None and not simulated:
        seed.image = _image_record(known[0]) if known else None
        return
    digest = _digest(_chunks(path))
    current = [
        known_image
        for known_image in known
        if known_image.status == "active" and known_image.properties.get(IMAGE_SOURCE) == digest
    ]
    if not current:
        current = [_upload(context, path, digest)]
        seed.made.append(f"image {IMAGE_NAME}")
    for old in known:
        if old.id != current[0].id:
            images.delete(context, old.id)
    seed.image = _image_record(current[0])


def _upload(context: RequestContext, path: Path | None, digest: str) -> Image:
    record = images.create(
        context,
        name=IMAGE_NAME,
        disk_format="qcow2" if path else "raw",
        container_format="bare",
        visibility="public",
        min_ram=96,
        properties={**GUEST_PROPERTIES, IMAGE_SOURCE: digest},
    )
    return images.upload(context, record.id, _chunks(path))


def _image_record(record: Image) -> dict[str, str]:
    return {"id": str(record.id), "name": record.name, "status": record.status}


def _chunks(path: Path | None) -> Iterator[bytes]:
    """Yield the file in chunks, or one MiB of a blank raw disk without a file."""
    if path is None:
        yield bytes(CHUNK)
        return
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _digest(chunks: Iterator[bytes]) -> str:
    total = hashlib.sha512()
    for chunk in chunks:
        total.update(chunk)
    return total.hexdigest()


def join_tokens(hosts: list[str], known: set[str], seed: Seed) -> None:
    """Create a join token for each host that has not enrolled."""
    for name in hosts:
        if name not in known:
            seed.join_tokens[name] = enrolment.create_join_token(name)


def write(path: Path, content: str) -> None:
    """Write a file atomically, readable only by the owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    temporary.touch(mode=0o600)
    temporary.write_text(content)
    temporary.replace(path)


def _write_secret(path: Path, secret: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write(path, secret + "\n")


def as_dict(seed: Seed) -> dict[str, Any]:
    """Return the data that ``bin/up`` reads."""
    return {
        "domain": {"id": DOMAIN_ID, "name": "Default"},
        "users": seed.users,
        "passwords": seed.passwords,
        "projects": seed.projects,
        "join_tokens": seed.join_tokens,
        "network": seed.network,
        "external": seed.external,
        "image": seed.image,
        "flavor": seed.flavor,
    }
