"""The target of a measurement: the addresses of a cloud's services, the user, and the parameters of launches."""

from __future__ import annotations

import json
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from keystoneauth1.exceptions.base import ClientException
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.config.cloud_region import CloudRegion

from tools.bench.cloud import BenchError
from tools.bench.over_http.connection import Caller, Request, request
from tools.bench.over_http.machine import Used

GONE_WITHIN = 300.0
LOOK_EVERY = 0.2


@dataclass(frozen=True)
class Endpoints:
    """URLs of the services without a trailing slash; only the URL of Compute contains a version."""

    identity: str
    compute: str
    image: str
    network: str


@dataclass
class Launch:
    """The parameters of launches: ids, and networks in Nova's format (a list, ``auto`` or ``none``)."""

    image: str
    flavor: str
    networks: Any

    def body(self, name: str, count: int = 1) -> bytes:
        """Return the body of ``POST /servers`` for ``count`` servers."""
        server = {"name": name, "imageRef": self.image, "flavorRef": self.flavor, "networks": self.networks}
        if count > 1:
            server |= {"min_count": count, "max_count": count}
        return json.dumps({"server": server}).encode()


@dataclass
class Target:
    """A cloud with a signed-in user; the names of all servers that it creates begin with ``prefix``."""

    label: str
    endpoints: Endpoints
    token: str
    password_body: bytes | None
    """The body of ``POST /v3/auth/tokens``. None if the user's password is not known, so that the sign-in is not
    measured.
    """
    tls: ssl.SSLContext | None = None
    launch: Launch | None = None
    used: Callable[[], Used] = dict
    """Returns processor seconds until now; empty if the cloud's processes are not on this machine."""
    memory_kib: Mapping[str, int] = field(default_factory=dict)
    prefix: str = field(default_factory=lambda: f"bench-{secrets.token_hex(3)}-")

    def get(self, url: str) -> Request:
        return request("GET", url, {"X-Auth-Token": self.token})

    def post(self, url: str, body: bytes) -> Request:
        return request("POST", url, {"X-Auth-Token": self.token}, body)

    def check(self) -> Request:
        """Return a request that validates the user's own token."""
        return request("GET", self._tokens, {"X-Auth-Token": self.token, "X-Subject-Token": self.token})

    def sign_in(self) -> Request | None:
        return request("POST", self._tokens, {}, self.password_body) if self.password_body else None

    @property
    def _tokens(self) -> str:
        return f"{self.endpoints.identity}/v3/auth/tokens"

    def server(self, name: str, count: int = 1) -> Request:
        assert self.launch is not None  # noqa: S101 - was chosen before anything is measured
        return self.post(f"{self.endpoints.compute}/servers", self.launch.body(f"{self.prefix}{name}", count))

    def caller(self) -> Caller:
        return Caller(self.tls)

    # ----- servers of this run --------------------------------------------------------------------------------------

    def ours(self, caller: Caller) -> list[str]:
        """Return the ids of servers that this run has created, at most one page."""
        query = f"{self.endpoints.compute}/servers?name={self.prefix}&limit=500"
        found = json.loads(caller.ask(self.get(query)).body)["servers"]
        return [server["id"] for server in found if server["name"].startswith(self.prefix)]

    def delete_ours(self, caller: Caller) -> None:
        """Delete all servers that this run has created, and wait until they are deleted. Raises BenchError."""
        deadline, asked = time.monotonic() + GONE_WITHIN, set[str]()
        while time.monotonic() < deadline:
            found = self.ours(caller)
            if not found:
                return
            for server in set(found) - asked:
                url = f"{self.endpoints.compute}/servers/{server}"
                caller.send(request("DELETE", url, {"X-Auth-Token": self.token}))
            asked |= set(found)
            time.sleep(LOOK_EVERY)
        raise BenchError(f"{self.label}: servers named {self.prefix}… are not deleted")


def region(cloud: str, **more: Any) -> CloudRegion:
    """Read the configuration of a cloud in clouds.yaml, or with ``envvars`` of the OS_ variables. Raises BenchError."""
    try:
        return OpenStackConfig(**more).get_one(cloud)
    except exceptions.ConfigException as error:
        raise BenchError(str(error)) from error


def region_of(auth_url: str, user: str, password: str, project: str) -> CloudRegion:
    """Return the configuration of a cloud from its identity service and a user of the default domain."""
    domain = {"user_domain_id": "default", "project_domain_id": "default"}
    auth = {"auth_url": auth_url, "username": user, "password": password, "project_name": project} | domain
    return OpenStackConfig(config_files=[], load_envvars=False).get_one(auth=auth)


def target(label: str, place: CloudRegion) -> Target:
    """Sign in and find the services in the catalog.  Raises BenchError."""
    try:
        session = place.get_session()
        if not isinstance(session.auth, BaseIdentityPlugin):
            raise BenchError(f"{label}: its user signs in without an identity service")
        access = session.auth.get_access(session)
        urls = {name: _endpoint(place, name) for name in ("identity", "compute", "image", "network")}
    except (exceptions.SDKException, ClientException) as error:
        raise BenchError(f"{label}: {error}") from error
    verify, certificate = place.get_requests_verify_args()
    tls = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    if verify is False:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if certificate:
        tls.load_cert_chain(*([certificate] if isinstance(certificate, str) else certificate))
    body = _password_body(place.config.get("auth", {}), access.project_id)
    return Target(label, Endpoints(**urls), str(access.auth_token), body, tls)


def _endpoint(place: CloudRegion, service: str) -> str:
    session = place.get_session()
    found = session.get_endpoint(
        service_type=service, interface=place.get_interface(service), region_name=place.get_region_name(service)
    )
    if not found:
        raise BenchError(f"the catalog has no endpoint of {service}")
    url = str(found).rstrip("/")
    versions = () if service == "compute" else ("/v3", "/v2.0", "/v2")
    return next((url.removesuffix(version) for version in versions if url.endswith(version)), url)


def _password_body(auth: Mapping[str, Any], project: str | None) -> bytes | None:
    """Return the body of the configured user's sign-in, or None if the user does not sign in with a password."""
    if not auth.get("password") or not project:
        return None
    user = {"password": auth["password"]}
    if auth.get("user_id"):
        user |= {"id": auth["user_id"]}
    else:
        domain = auth.get("user_domain_id") or auth.get("domain_id")
        name = auth.get("user_domain_name") or auth.get("domain_name")
        user |= {"name": auth["username"], "domain": {"name": name} if name else {"id": domain or "default"}}
    identity = {"methods": ["password"], "password": {"user": user}}
    return json.dumps({"auth": {"identity": identity, "scope": {"project": {"id": project}}}}).encode()


# ----- what to launch -------------------------------------------------------------------------------------------------


def choose(to: Target, image: str, flavor: str, network: str) -> Launch:
    """Choose image, flavor and network by name or id; by default the smallest active image, the smallest flavor and the
    only network.

    Raises BenchError if there is none.
    """
    caller, urls = to.caller(), to.endpoints
    images = _all(to, caller, f"{urls.image}/v2/images?status=active&limit=100", "images")
    flavors = _all(to, caller, f"{urls.compute}/flavors/detail", "flavors")
    networks = _all(to, caller, f"{urls.network}/v2.0/networks?router:external=false", "networks")
    caller.close()
    chosen_network = _named("network", networks, network)
    if not network and len(chosen_network) > 1:
        raise BenchError(f"{to.label}: there are several networks; choose one with --network")
    if not chosen_network:
        raise BenchError(f"{to.label}: there is no network")
    smallest = min(_named("flavor", flavors, flavor), key=lambda found: (found["ram"], found["vcpus"], found["disk"]))
    plain = [found for found in images if not found.get("image_type") and found.get("size")] if not image else images
    if not plain:
        raise BenchError(f"{to.label}: there is no image")
    small_image = min(_named("image", plain, image), key=lambda found: found.get("size") or 0)
    return Launch(small_image["id"], smallest["id"], [{"uuid": chosen_network[0]["id"]}])


def _named(kind: str, found: list[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    fitting = [each for each in found if not wanted or wanted in {each["id"], each["name"]}]
    if wanted and not fitting:
        raise BenchError(f"there is no {kind} {wanted}")
    return fitting


def _all(to: Target, caller: Caller, url: str, key: str) -> list[dict[str, Any]]:
    """Return all pages of a list."""
    found: list[dict[str, Any]] = []
    while url:
        page = json.loads(caller.ask(to.get(url)).body)
        found += page[key]
        links = [link["href"] for link in page.get(f"{key}_links", []) if link["rel"] == "next"]
        url = urljoin(url, links[0] if links else page["next"]) if links or page.get("next") else ""
    return found
