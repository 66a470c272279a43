"""The Identity service and quotas as the unmodified ``openstack`` command line and openstacksdk use them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openstack
import pytest
from keystoneauth1.exceptions import Forbidden, Unauthorized
from openstack import exceptions
from openstack.connection import Connection

from tests.support.command_line import batch, refused
from tests.support.one_machine import OneMachine

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]


@pytest.fixture(scope="module")
def cloud(simulated: OneMachine) -> OneMachine:
    return simulated


PASSWORD = "a-password-of-clients"


def as_user(cloud: OneMachine, name: str, **more: str) -> dict[str, str]:
    """The environment of a person who signs in with a password, like an openrc file makes it."""
    return {
        "OS_AUTH_URL": f"{cloud.url}/identity/v3",
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": name,
        "OS_PASSWORD": PASSWORD,
        "OS_USER_DOMAIN_NAME": "Default",
        **more,
    }


def names(rows: list[dict[str, Any]]) -> set[str]:
    return {row["Name"] for row in rows}


def test_projects_users_and_groups(cloud: OneMachine) -> None:
    project, child, user, group, members, own = batch(
        cloud,
        "project create --description For-clients --tag blue --property owner=me cli-project",
        "project create --parent cli-project cli-child",
        f"user create --project cli-project --password {PASSWORD} --email cli@example.org cli-user",
        "group create --description Of-clients cli-group",
        "group add user cli-group cli-user",
        "user list --group cli-group",
        "group list --user cli-user",
    )
    assert (project["tags"], project["owner"], project["enabled"]) == (["blue"], "me", True)
    assert child["parent_id"] == project["id"]
    assert (user["default_project_id"], user["email"]) == (project["id"], "cli@example.org")
    assert (group["description"], names(members), names(own)) == ("Of-clients", {"cli-user"}, {"cli-group"})

    shown, tagged, result, disabled = batch(
        cloud,
        "project set --description Changed --tag green cli-project",
        "user set --description Somebody --disable cli-user",
        "group set --name cli-crowd cli-group",
        "project show cli-project",
        "project list --tags green",
        "group list",
        "user show cli-user",
        "user set --enable cli-user",
    )
    assert (shown["description"], sorted(shown["tags"])) == ("Changed", ["blue", "green"])
    assert names(tagged) == {"cli-project"}
    assert "cli-crowd" in names(result)
    assert (disabled["enabled"], disabled["description"]) == (False, "Somebody")
    assert "409" in refused(cloud, "project create cli-project")

    assert batch(cloud, "group remove user cli-crowd cli-user", "user list --group cli-crowd") == [[]]
    left, users, groups = batch(
        cloud,
        "group delete cli-crowd",
        "user delete cli-user",
        "project delete cli-child cli-project",
        "project list",
        "user list",
        "group list",
    )
    assert not {"cli-project", "cli-child"} & names(left)
    assert "cli-user" not in names(users)
    assert "cli-crowd" not in names(groups)


@pytest.mark.deep
def test_roles_and_what_they_open(cloud: OneMachine) -> None:
    batch(
        cloud,
        "project create role-project",
        "group create role-group",
        f"user create --password {PASSWORD} role-user",
        "group add user role-group role-user",
    )
    person = as_user(cloud, "role-user", OS_PROJECT_NAME="role-project", OS_PROJECT_DOMAIN_NAME="Default")
    assert "401" in refused(cloud, "token issue", **person)

    role, _, implied, effective, named = batch(
        cloud,
        "role create --description Looks-after-backups backup",
        "implied role create --implied-role reader backup",
        "role add --group role-group --project role-project backup",
        "implied role list",
        "role assignment list --user role-user --effective --project role-project",
        "role assignment list --group role-group --names",
    )
    assert role["description"] == "Looks-after-backups"
    assert "reader" in json.dumps(implied)
    assert len(effective) == 2
    assert named
    [token] = batch(cloud, "token issue", **person)
    assert token["project_id"]
    assert batch(cloud, "server list", **person) == [[]]
    assert "403" in refused(cloud, "keypair create role-key", **person)
    batch(cloud, "role remove --group role-group --project role-project backup")
    assert "401" in refused(cloud, "token issue", **person)

    batch(cloud, "role add --user role-user --domain default --inherited member")
    [entered] = batch(cloud, "project list", **person)
    assert "role-project" in names(entered)
    batch(
        cloud,
        "role remove --user role-user --domain default --inherited member",
        "role delete backup",
        "user delete role-user",
        "group delete role-group",
        "project delete role-project",
    )
    assert "403" in refused(cloud, "role delete member")


@pytest.mark.deep
def test_domains_and_their_administrators(cloud: OneMachine) -> None:
    domain, user = batch(
        cloud,
        "domain create --description A-school school",
        f"user create --domain school --password {PASSWORD} head",
        "role add --user head --user-domain school --domain school admin",
    )
    head = as_user(cloud, "head", OS_USER_DOMAIN_NAME="school", OS_DOMAIN_NAME="school")
    assert user["domain_id"] == domain["id"]
    made, pupil, listed = batch(
        cloud,
        "project create --domain school class-1",
        f"user create --domain school --password {PASSWORD} pupil",
        "role add --user pupil --user-domain school --project class-1 --project-domain school member",
        "user list --domain school",
        **head,
    )
    assert made["domain_id"] == pupil["domain_id"] == domain["id"]
    assert names(listed) == {"head", "pupil"}
    refused(cloud, "project create --domain default elsewhere", **head)
    refused(cloud, "user create --domain default somebody", **head)
    projects, users = batch(cloud, "project list --domain default", "user list --domain default")
    assert not {"elsewhere", "somebody"} & (names(projects) | names(users)), "the client names no reason"
    refused(cloud, "role add --user pupil --user-domain school --project class-1 --project-domain school admin", **head)
    [held] = batch(cloud, "role assignment list --names --user pupil --user-domain school")
    assert [row["Role"] for row in held] == ["member"]
    assert "403" in refused(cloud, "domain delete school")
    batch(cloud, "domain set --disable school", "domain delete school")


@pytest.mark.deep
def test_unified_limits(cloud: OneMachine) -> None:
    *_, registered, limit = batch(
        cloud,
        "service create --name rocket rockets",
        "project create limit-project",
        "registered limit create --service rocket --default-limit 3 --description Big engines",
        "limit create --service rocket --project limit-project --resource-limit 5 engines",
    )
    assert (registered["default_limit"], limit["resource_limit"]) == (3, 5)
    shown, listed, all_registered = batch(
        cloud,
        f"limit show {limit['id']}",
        "limit list --project limit-project --service rocket",
        "registered limit list --resource-name engines",
    )
    assert shown == limit
    assert [row["ID"] for row in listed] == [limit["id"]]
    assert [row["Default Limit"] for row in all_registered] == [3]
    assert "403" in refused(cloud, "limit create --service rocket --project limit-project --resource-limit 1 wings")
    batch(
        cloud,
        f"limit set --resource-limit 7 {limit['id']} -f json",
        f"limit delete {limit['id']}",
        f"registered limit set --default-limit 4 {registered['id']} -f json",
        f"registered limit delete {registered['id']}",
        "service delete rocket",
        "project delete limit-project",
    )


@pytest.mark.deep
def test_endpoint_groups(cloud: OneMachine, tmp_path: Path) -> None:
    conditions = tmp_path / "filters.json"
    service, endpoint, _, _ = batch(
        cloud,
        "service create --name rocket-group rockets",
        "endpoint create rocket-group public http://rockets.example",
        "project create endpoint-project",
        f"user create --password {PASSWORD} endpoint-user",
    )
    conditions.write_text(json.dumps({"service_id": service["id"], "interface": "public"}))
    group, shown, listed, projects, endpoints = batch(
        cloud,
        "role add --user endpoint-user --project endpoint-project member",
        f"endpoint group create rockets {conditions}",
        "endpoint group show rockets",
        "endpoint group add project rockets endpoint-project",
        "endpoint group list",
        "endpoint group list --endpointgroup rockets",
        f"endpoint add project {endpoint['id']} endpoint-project",
        "endpoint list --project endpoint-project",
    )
    assert shown["id"] == group["id"] == listed[0]["ID"]
    assert projects[0]["Name"] == "endpoint-project"
    assert [row["ID"] for row in endpoints] == [endpoint["id"]]
    person = as_user(cloud, "endpoint-user", OS_PROJECT_NAME="endpoint-project", OS_PROJECT_DOMAIN_NAME="Default")
    [catalog] = batch(cloud, "catalog list", **person)
    assert [entry["Name"] for entry in catalog] == ["rocket-group"]
    batch(
        cloud,
        f"endpoint remove project {endpoint['id']} endpoint-project",
        "endpoint group set --name more-rockets rockets",
        "endpoint group remove project more-rockets endpoint-project",
        "endpoint group delete more-rockets",
        "service delete rocket-group",
        "user delete endpoint-user",
        "project delete endpoint-project",
    )


@pytest.mark.deep
def test_application_credentials(cloud: OneMachine) -> None:
    demo = {"OS_CLOUD": "demo", "OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml")}
    [made] = batch(cloud, "application credential create --role reader --description For-a-robot robot", **demo)
    robot = {
        "OS_AUTH_TYPE": "v3applicationcredential",
        "OS_AUTH_URL": f"{cloud.url}/identity/v3",
        "OS_APPLICATION_CREDENTIAL_ID": made.get("id") or made["ID"],
        "OS_APPLICATION_CREDENTIAL_SECRET": made.get("secret") or made["Secret"],
    }
    [token], [images] = batch(cloud, "token issue", **robot), batch(cloud, "image list", **robot)
    assert token["project_id"]
    assert "novella-guest" in names(images)
    assert "403" in refused(cloud, "keypair create robots-key", **robot)
    assert "403" in refused(cloud, "application credential create another", **robot)
    [listed] = batch(cloud, "application credential list", **demo)
    assert "robot" in names(listed)
    batch(cloud, "application credential delete robot", **demo)
    assert "401" in refused(cloud, "token issue", **robot)


@pytest.mark.deep
def test_trusts(cloud: OneMachine) -> None:
    _, made = batch(
        cloud,
        f"user create --password {PASSWORD} deputy",
        "trust create --project admin --role reader --impersonate --expiration 2090-01-31T12:00:00 admin deputy",
    )
    assert (made["is_impersonation"], made["expires_at"]) == (True, "2090-01-31T12:00:00.000000Z")
    trusted = as_user(cloud, "deputy", OS_TRUST_ID=made["id"])
    [token], [images] = batch(cloud, "token issue", **trusted), batch(cloud, "image list", **trusted)
    assert (token["user_id"], token["project_id"]) == (made["trustor_user_id"], made["project_id"])
    assert "novella-guest" in names(images)
    assert "403" in refused(cloud, "keypair create deputys-key", **trusted)
    listed, given, shown = batch(cloud, "trust list", "trust list --trustor admin", f"trust show {made['id']}")
    assert [row["ID"] for row in listed] == [row["ID"] for row in given] == [shown["id"]] == [made["id"]]
    assert [role["name"] for role in shown["roles"]] == ["reader"]
    batch(cloud, f"trust delete {made['id']}")
    assert "401" in refused(cloud, "token issue", **trusted)
    assert batch(cloud, "user delete deputy", "trust list") == [[]]


@pytest.mark.deep
def test_ec2_credentials(cloud: OneMachine) -> None:
    demo = {"OS_CLOUD": "demo", "OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml")}
    [made] = batch(cloud, "ec2 credentials create", **demo)
    access = made["access"]
    [listed], [shown] = (
        batch(cloud, "ec2 credentials list", **demo),
        batch(cloud, f"ec2 credentials show {access}", **demo),
    )
    assert access in json.dumps(listed)
    assert shown["secret"] == made["secret"]
    batch(cloud, f"ec2 credentials delete {access}", **demo)
    assert batch(cloud, "ec2 credentials list", **demo) == [[]]


@pytest.mark.deep
def test_catalog_records(cloud: OneMachine) -> None:
    region, service, endpoint = batch(
        cloud,
        "region create --description Another-room annex",
        "service create --name swift --description Object-store object-store",
        "endpoint create --region annex object-store public http://127.0.0.1:9/v1/AUTH_$(project_id)s",
    )
    [catalog] = batch(cloud, "catalog list")
    assert region["description"] == "Another-room"
    assert service["type"] == "object-store"
    assert endpoint["service_id"] == service["id"]
    [swift] = [row for row in catalog if row["Name"] == "swift"]
    assert "AUTH_$" not in json.dumps(swift)
    [listed] = batch(cloud, "endpoint set --url http://127.0.0.1:9/v2 " + endpoint["id"], "endpoint list")
    assert {"keystone", "nova", "glance", "neutron", "swift"} <= {row["Service Name"] for row in listed}
    assert "403" in refused(cloud, "region delete annex")
    batch(cloud, f"endpoint delete {endpoint['id']}", "service delete swift", "region delete annex")


@pytest.mark.deep
def test_quotas_and_limits(cloud: OneMachine) -> None:
    batch(cloud, "project create quota-project", "quota set --cores 3 --ram 2048 --ports 7 quota-project")
    [shown] = batch(cloud, "quota show quota-project")
    limits = {row["Resource"]: row["Limit"] for row in shown} if isinstance(shown, list) else shown
    assert (limits["cores"], limits["ram"], limits["ports"]) == (3, 2048, 7)
    [absolute] = batch(cloud, "limits show --absolute --project quota-project")
    values = {row["Name"]: row["Value"] for row in absolute}
    assert values.get("max_total_cores", values.get("maxTotalCores")) == 3
    batch(cloud, "quota delete quota-project")
    [shown] = batch(cloud, "quota show quota-project")
    limits = {row["Resource"]: row["Limit"] for row in shown} if isinstance(shown, list) else shown
    assert limits["cores"] == 20
    batch(cloud, "project delete quota-project")


@pytest.mark.deep
def test_own_password_and_token(cloud: OneMachine) -> None:
    batch(
        cloud,
        "project create own-project",
        f"user create --password {PASSWORD} own-user",
        "role add --user own-user --project own-project member",
    )
    own = as_user(cloud, "own-user", OS_PROJECT_NAME="own-project", OS_PROJECT_DOMAIN_NAME="Default")
    [token] = batch(cloud, "token issue", **own)
    batch(cloud, f"token revoke {token['id']}", **own)
    by_token = {"OS_AUTH_TYPE": "v3token", "OS_AUTH_URL": f"{cloud.url}/identity/v3", "OS_TOKEN": token["id"]}
    assert "401" in refused(cloud, "server list", **by_token)
    batch(cloud, f"user password set --original-password {PASSWORD} --password another-password-of-clients", **own)
    assert "401" in refused(cloud, "token issue", **own)
    assert batch(cloud, "token issue", **own | {"OS_PASSWORD": "another-password-of-clients"})
    batch(cloud, "user delete own-user", "project delete own-project")


@pytest.fixture(scope="module")
def sdk(cloud: OneMachine) -> Iterator[Connection]:
    """openstacksdk as the administrator."""
    with openstack.connect(
        auth_url=f"{cloud.url}/identity/v3",
        username="admin",
        password=cloud.password("admin"),
        project_name="admin",
        user_domain_name="Default",
        project_domain_name="Default",
        region_name="RegionOne",
    ) as connection:
        yield connection


def test_the_sdk_knows_projects_users_groups_and_roles(sdk: Connection) -> None:
    identity = sdk.identity
    project = identity.create_project(name="sdk-project", domain_id="default", tags=["a", "b"])
    user = identity.create_user(name="sdk-user", password=PASSWORD, domain_id="default", default_project_id=project.id)
    group = identity.create_group(name="sdk-group", domain_id="default")
    role = identity.find_role("member")
    identity.add_user_to_group(user, group)
    assert identity.check_user_in_group(user, group)
    identity.assign_project_role_to_user(project, user, role)
    assert identity.validate_user_has_project_role(project, user, role)
    assert [each.id for each in identity.role_assignments(user_id=user.id)]
    assert [each.id for each in identity.user_projects(user)] == [project.id]
    assert identity.update_project(project, description="changed").description == "changed"
    assert identity.find_user("sdk-user").id == user.id
    with pytest.raises(exceptions.ConflictException):
        identity.create_user(name="sdk-user", domain_id="default")
    with pytest.raises(exceptions.BadRequestException):
        identity.create_user(name="sdk-other", domain_id="default", enabled="perhaps")
    identity.unassign_project_role_from_user(project, user, role)
    identity.assign_project_role_to_group(project, group, role)
    assert identity.validate_group_has_project_role(project, group, role)
    identity.assign_domain_role_to_group("default", group, role)
    identity.unassign_domain_role_from_group("default", group, role)
    identity.assign_system_role_to_user(user, role, "all")
    identity.unassign_system_role_from_user(user, role, "all")
    for remove, record in (
        (identity.delete_group, group),
        (identity.delete_user, user),
        (identity.delete_project, project),
    ):
        remove(record, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        identity.get_project(project.id)


def test_the_sdk_knows_credentials_domains_and_the_catalog(sdk: Connection) -> None:
    identity = sdk.identity
    me = sdk.current_user_id
    credential = identity.create_credential(
        type="cert", blob="secret blob", user_id=me, project_id=sdk.current_project_id
    )
    assert identity.get_credential(credential.id).blob == "secret blob"
    identity.delete_credential(credential)
    made = identity.create_application_credential(user=me, name="sdk-robot")
    assert made.secret
    robot = openstack.connect(
        auth_type="v3applicationcredential",
        auth_url=sdk.config.auth["auth_url"],
        application_credential_id=made.id,
        application_credential_secret=made.secret,
        region_name="RegionOne",
    )
    assert robot.current_project_id == sdk.current_project_id
    assert [image.name for image in robot.image.images()]
    identity.delete_application_credential(me, made)
    with pytest.raises(Unauthorized):
        robot.identity.get_user(me)
    robot.close()
    domain = identity.create_domain(name="sdk-domain")
    identity.update_domain(domain, is_enabled=False)
    identity.delete_domain(domain, ignore_missing=False)
    assert {service.type for service in identity.services()} >= {"identity", "compute", "image", "network"}
    assert len(list(identity.endpoints())) >= 12
    assert "RegionOne" in [region.id for region in identity.regions()]


def test_the_sdk_knows_tokens_for_domains_and_the_system(cloud: OneMachine, sdk: Connection) -> None:
    identity = sdk.identity
    admin, role = identity.find_user("admin"), identity.find_role("admin")
    identity.assign_system_role_to_user(admin, role, "all")
    identity.assign_domain_role_to_user("default", admin, role)
    common = {
        "auth_url": f"{cloud.url}/identity/v3",
        "username": "admin",
        "password": cloud.password("admin"),
        "user_domain_name": "Default",
        "region_name": "RegionOne",
    }
    with (
        openstack.connect(system_scope="all", **common) as whole,
        openstack.connect(domain_name="Default", **common) as one,
    ):
        assert whole.session.auth.get_access(whole.session).system == {"all": True}
        assert [user.name for user in whole.identity.users() if user.name == "demo"] == ["demo"]
        assert one.session.auth.get_access(one.session).domain_id == "default"
        assert [user.name for user in one.identity.users() if user.name == "demo"] == ["demo"]
        with pytest.raises((Forbidden, exceptions.ForbiddenException)):
            list(one.compute.servers())
    identity.unassign_system_role_from_user(admin, role, "all")
    identity.unassign_domain_role_from_user("default", admin, role)
