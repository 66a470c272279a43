"""Creates the users of a chaos run: one in each project, in addition to the operator."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from tools.chaos.calls import FLAVORS
from tools.chaos.clients import volumes
from tools.chaos.clients.client import Answer, Client
from tools.chaos.clients.ec2 import SHARED_NETWORK
from tools.chaos.clients.ec2_user import Ec2
from tools.chaos.clients.networks import NETWORK, ROUTER
from tools.chaos.clients.operations import COMPUTE
from tools.chaos.clients.wizard import Wizard
from tools.chaos.clients.world import World
from tools.chaos.plan import POLICIES, PROJECTS

QUOTA = {"instances": 20, "cores": 40, "ram": 40_960, "server_group_members": 100}
"""The quota of each project, low enough to be reached now and then."""
HAS_AGENT = [{"op": "add", "path": "/hw_qemu_guest_agent", "value": "yes"}]
"""A property that is added to the image, so that guests support operations that need a guest agent."""
PATCH = "application/openstack-images-v2.1-json-patch"


class UsersError(Exception):
    """The cloud did not accept a request for users or their resources. The message gives the reason."""


def create(port: int, seeded: Mapping[str, Any], prefix: str, note: Callable[[str], None]) -> World:
    """Create projects, users, quotas and server groups, and sign in all users. Raises UsersError."""
    operator = Client(port, "admin", seeded["passwords"]["admin"], "admin")
    operator.sign_in()
    found = _asked(operator.call("GET", "/identity/v3/roles?name=member"))
    role = found["roles"][0]["id"]
    _asked(operator.call("PATCH", f"/image/v2/images/{seeded['image']['id']}", HAS_AGENT, PATCH))
    clients, wizards, groups = [], [], {}
    for number in range(PROJECTS):
        client, wizard = _user(operator, port, number, role)
        clients.append(client)
        wizards.append(wizard)
        for policy in POLICIES:
            body = {"server_group": {"name": policy, "policy": policy}}
            made = _asked(client.call("POST", f"{COMPUTE}/os-server-groups", body))
            groups[number, policy] = made["server_group"]["id"]
    world = World(clients, operator, wizards, seeded["image"]["id"], seeded["network"]["id"], groups, prefix, note)
    _set_gateways(world)
    _asked(volumes.prepare(operator))
    _prepare_ec2(world, port, seeded["image"]["id"])
    for each in (operator, *clients):
        each.patient = False
    return world


def _prepare_ec2(world: World, port: int, image: str) -> None:
    """Create EC2 credentials for each user, and find the EC2 ids of the image and subnet, and the names of
    the flavors.
    """
    for client in world.clients:
        token = _asked(client.call("GET", "/identity/v3/auth/tokens"))["token"]
        path = f"/identity/v3/users/{token['user']['id']}/credentials/OS-EC2"
        made = _asked(client.call("POST", path, {"tenant_id": token["project"]["id"]}))["credential"]
        world.by_ec2.append(Ec2(port, made["access"], made["secret"]))
    name = _asked(world.operator.call("GET", f"/image/v2/images/{image}"))["name"]
    images = _asked(world.by_ec2[0].ask("DescribeImages", Filters=[{"Name": "name", "Values": [name]}]))["Images"]
    ranges = [{"Name": "cidr-block", "Values": [SHARED_NETWORK]}]
    subnets = _asked(world.by_ec2[0].ask("DescribeSubnets", Filters=ranges))["Subnets"]
    world.ec2_launch = {"ImageId": images[0]["ImageId"], "SubnetId": subnets[0]["SubnetId"]}
    for flavor, key in FLAVORS.items():
        world.types[flavor] = _asked(world.operator.call("GET", f"{COMPUTE}/flavors/{key}"))["flavor"]["name"]


def _set_gateways(world: World) -> None:
    """Create a router in each project and connect it to the external network; the shared network already has one."""
    external = _asked(world.operator.call("GET", f"{NETWORK}/networks?router:external=true"))["networks"]
    world.external = external[0]["id"]
    router = {"name": ROUTER, "external_gateway_info": {"network_id": world.external}}
    for client in world.clients:
        made = _asked(client.call("POST", f"{NETWORK}/routers", {"router": router}))
        world.routers.append(made["router"]["id"])


def _user(operator: Client, port: int, number: int, role: str) -> tuple[Client, Wizard]:
    name, password = f"chaos-{number}", secrets.token_urlsafe(12)
    project = _asked(
        operator.call("POST", "/identity/v3/projects", {"project": {"name": name, "domain_id": "default"}})
    )
    project_id = project["project"]["id"]
    user = {"name": name, "password": password, "domain_id": "default", "default_project_id": project_id}
    user_id = _asked(operator.call("POST", "/identity/v3/users", {"user": user}))["user"]["id"]
    _asked(operator.call("PUT", f"/identity/v3/projects/{project_id}/users/{user_id}/roles/{role}"))
    _asked(operator.call("PUT", f"{COMPUTE}/os-quota-sets/{project_id}", {"quota_set": QUOTA}))
    client = Client(port, name, password, name)
    client.sign_in()
    wizard = Wizard(port, name, password)
    wizard.sign_in()
    return client, wizard


def _asked(answer: Answer) -> Any:
    if not answer.accepted:
        raise UsersError(f"the cloud said {answer.status}: {answer.words}")
    return answer.body
