"""The rules: every operation has one, and each role may what it says."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest

from portal.api.network.registry import RESOURCES
from portal.api.openapi.policy_page import operations_of_rules
from provisioning.common.context import RequestContext, system_context
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policies, policy, policy_file
from provisioning.identity.policies import GUARDING
from provisioning.identity.policies.base import EVERY_SCOPE, PROJECT
from tests.support.tables import check_each, each_row

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r'"((?:os_compute_api|novella|identity|compute:servers?|get_network|get_port):[\w:-]+)"')
IMPLIED = {"admin": {"admin", "member", "reader"}, "member": {"member", "reader"}}
OPERATIONS = cache(operations_of_rules)
"""Goes through all routes once, for the tests of every rule."""
EFFECTIVE = cache(partial(policy_file.effective, {}))
WHERE = re.compile(r"(GET|HEAD|POST|PUT|PATCH|DELETE) /[\w{}./-]*(\?[\w]+=[\w{}]+(&\w+=[\w{}]+)*)?( \([\w-]+\))?")


def context(*names: str) -> RequestContext:
    """Somebody with a token for a project and these roles, with all that they imply."""
    roles = frozenset(each for name in names for each in IMPLIED.get(name, {name}))
    return RequestContext(uuid.uuid4(), "somebody", uuid.uuid4(), roles=roles)


def domain_admin(domain_id: str = "default") -> RequestContext:
    return replace(context("admin"), project_id=None, domain_id=domain_id)


def test_every_rule_named_anywhere_exists() -> None:
    files = [path for folder in ("portal", "provisioning") for path in (ROOT / folder).rglob("*.py")]
    files += (ROOT / "templates").rglob("*.html")
    named = {name for path in files for name in NAME.findall(path.read_text())}
    assert len(named) > 200
    named = {name for name in named if not name.endswith(":")}  # the beginnings of composed names
    assert named - {"novella:algorithm", "novella:catalog"} - policy.RULES.keys() == set()


def test_every_rule_is_asked_somewhere() -> None:
    rules = ROOT / "provisioning" / "identity" / "policies"
    files = [path for folder in ("portal", "provisioning") for path in (ROOT / folder).rglob("*.py")]
    text = "\n".join(path.read_text() for path in files if rules not in path.parents)
    by_views = {name for name, at in OPERATIONS().items() if len(at) > len(policy.RULES[name].operations)}
    requested = by_views | {
        *re.findall(r'"([\w:-]+)"', text),
        *(rule for resource in RESOURCES for rule in resource.rules),
    }
    assert GUARDING.keys() - requested == set()


def test_rules_are_well_formed() -> None:
    check_each(policy.RULES.values(), _is_well_formed, lambda rule: rule.name)


def _is_well_formed(rule: policy.Rule) -> None:
    assert policy_file.problems_of_check(rule.name, rule.check, EFFECTIVE()) == []
    assert rule.description.endswith(".")
    assert rule.scopes in {PROJECT, EVERY_SCOPE}
    operations = OPERATIONS()[rule.name]
    assert bool(operations) == (rule.name in GUARDING), "a rule guards an operation, or is named by others"
    for method, path in operations:
        assert WHERE.fullmatch(f"{method} {path}"), f"{method} {path}"


def test_names_are_there_once() -> None:
    names = [rule.name for _, rules in policies.parts() for rule in rules]
    assert sorted(names) == sorted(policy.RULES)


@each_row(
    ("rule", "reader", "member", "admin"),
    [
        ("os_compute_api:servers:detail", True, True, True),
        ("os_compute_api:servers:show", True, True, True),
        ("os_compute_api:servers:create", False, True, True),
        ("os_compute_api:servers:delete", False, True, True),
        ("os_compute_api:servers:detail:get_all_tenants", False, False, True),
        ("novella:flavors:index", True, True, True),
        ("os_compute_api:os-flavor-manage:create", False, False, True),
        ("os_compute_api:os-keypairs:create", False, True, True),
        ("os_compute_api:os-hypervisors:list", False, False, True),
        ("get_images", True, True, True),
        ("add_image", False, True, True),
        ("publicize_image", False, False, True),
        ("get_network", True, True, True),
        ("identity:list_projects", False, False, True),
        ("novella:admin", False, False, True),
    ],
)
def test_roles(rule: str, reader: bool, member: bool, admin: bool) -> None:
    assert [policy.allows(context(role), rule) for role in ("reader", "member", "admin")] == [reader, member, admin]
    assert not policy.allows(context(), rule), "no role, no operation"


WRITES_NOTHING = {
    "os_compute_api:servers:show",  # which every action asks before its own
    "novella:ec2:tags:list",  # every action of EC2 comes as a POST
    "novella:removed_apis",  # answered with 410
    "novella:volumes:would_fit",  # likewise: tests/volume_api/test_would_fit.py
    "volume:get",  # as servers:show
    "volume:get_snapshot",  # likewise
    "backup:get",  # likewise
    "group:get",  # likewise
    "volume_extension:type_get",  # likewise
    "volume_extension:volume_image_metadata:show",  # os-show_image_metadata reads
    "novella:would_fit",  # a question with a body: tests/core/test_dry_run.py looks that nothing is written
}


def test_reader_writes_nothing() -> None:
    writing = {
        name
        for name, operations in OPERATIONS().items()
        if any(method not in {"GET", "HEAD"} for method, _ in operations)
        and name not in WRITES_NOTHING
        and policy.allows(context("reader"), name)
    }
    assert writing == set()


def test_role_of_an_operators_own_making_brings_nothing_else() -> None:
    assert not policy.allows(context("auditor"), "os_compute_api:servers:detail")


def test_object_belongs_to_the_caller() -> None:
    caller = context("reader")
    assert caller.user_id is not None
    for own in (caller.user_id, str(caller.user_id), caller.user_id.hex.upper()):
        assert policy.allows(caller, "identity:get_user", {"user_id": own})
    for other in ({"user_id": uuid.uuid4().hex}, {"user_id": "no id"}, {"user_id": None}, {"user_id": ["x"]}, {}):
        assert not policy.allows(caller, "identity:get_user", other)
    nobody = RequestContext(None, "novella", None)
    assert not policy.allows(nobody, "identity:get_user", {"user_id": None})


def test_what_a_project_owns_needs_a_token_for_a_project() -> None:
    domain, unscoped = domain_admin(), replace(context("admin"), project_id=None)
    system = replace(context("admin"), project_id=None, system=True)
    owned = [rule for rule in policy.RULES.values() if rule.scopes == PROJECT]
    assert len(owned) > 60
    assert [rule.name for rule in owned for who in (domain, unscoped, system) if policy.allows(who, rule.name)] == []
    with pytest.raises(ForbiddenError, match=r"os_compute_api:servers:detail .*token for a project"):
        policy.enforce(domain, "os_compute_api:servers:detail")


def test_administrator_of_a_domain_stays_in_it() -> None:
    target = {"domain_id": "default"}
    assert policy.allows(domain_admin(), "domain_admin", target)
    assert not policy.allows(domain_admin("other"), "domain_admin", target)
    assert not policy.allows(domain_admin(), "domain_admin", {})
    assert not policy.allows(domain_admin(), "admin_required")
    assert not policy.allows(context("admin"), "domain_admin", target), (
        "the cloud's administrator has a rule of its own"
    )
    assert policy.allows(replace(context("admin"), project_id=None, system=True), "admin_required")


def test_the_cloud_itself_may_and_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "_current", lambda: pytest.fail("a job has loaded the rules"))
    assert policy.allows(system_context(), "os_compute_api:servers:detail:get_all_tenants")


def test_enforce_names_the_rule() -> None:
    with pytest.raises(ForbiddenError, match="os_compute_api:servers:create"):
        policy.enforce(context("reader"), "os_compute_api:servers:create")
    with pytest.raises(KeyError):
        policy.allows(context("admin"), "compute:servers:paint")
