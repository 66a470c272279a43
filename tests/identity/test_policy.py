"""The rules: every operation has one, and each role may what it says."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r'"((?:compute|image|network|identity|live|ops):[a-z_:]+)"')
FORM = re.compile(r"@|!|role:[a-z]+|(user|project|domain)_id:%\((user|project|domain)_id\)s")


IMPLIED = {"admin": {"admin", "member", "reader"}, "member": {"member", "reader"}}


def expand(names: tuple[str, ...] | list[str]) -> frozenset[str]:
    return frozenset(each for name in names for each in IMPLIED.get(name, {name}))


def context(*names: str) -> RequestContext:
    return RequestContext(uuid.uuid4(), "somebody", uuid.uuid4(), roles=expand(names))


def test_every_rule_named_anywhere_exists() -> None:
    files = [path for folder in ("portal", "provisioning") for path in (ROOT / folder).rglob("*.py")]
    files += (ROOT / "templates").rglob("*.html")
    named = {name for path in files for name in NAME.findall(path.read_text())}
    assert len(named) > 40
    assert named - policy.RULES.keys() == set()


@pytest.mark.parametrize("rule", policy.RULES.values(), ids=policy.RULES.keys())
def test_rule_is_well_formed(rule: policy.Rule) -> None:
    for check in rule.check.split(" or "):
        assert FORM.fullmatch(check), check
    assert rule.description.endswith(".")
    assert rule.operations
    for method, path in rule.operations:
        assert method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
        assert path.startswith("/")


@pytest.mark.parametrize(
    ("rule", "reader", "member", "admin"),
    [
        ("compute:servers:list", True, True, True),
        ("compute:servers:show", True, True, True),
        ("compute:servers:create", False, True, True),
        ("compute:servers:delete", False, True, True),
        ("compute:servers:list:all_projects", False, False, True),
        ("compute:flavors:list", True, True, True),
        ("compute:flavors:create", False, False, True),
        ("compute:keypairs:create", False, True, True),
        ("compute:hosts:list", False, False, True),
        ("image:images:list", True, True, True),
        ("image:images:create", False, True, True),
        ("image:images:publicize", False, False, True),
        ("network:networks:list", True, True, True),
        ("identity:projects:list", False, False, True),
        ("ops:admin", False, False, True),
    ],
)
def test_roles(rule: str, reader: bool, member: bool, admin: bool) -> None:
    assert [policy.allows(context(role), rule) for role in ("reader", "member", "admin")] == [reader, member, admin]
    assert not policy.allows(context(), rule), "no role, no operation"


def test_reader_writes_nothing() -> None:
    writing = {
        rule.name
        for rule in policy.RULES.values()
        if any(method != "GET" and method != "HEAD" for method, _ in rule.operations)
        and policy.allows(context("reader"), rule.name)
    }
    assert writing == set()


def test_role_of_an_operators_own_making_brings_nothing_else() -> None:
    assert roles.expand(["auditor"]) == {"auditor"}
    assert not policy.allows(context("auditor"), "compute:servers:list")


def test_object_belongs_to_the_caller() -> None:
    caller = context("reader")
    own: dict[str, object] = {"user_id": caller.user_id.hex if caller.user_id else ""}
    assert policy.allows(caller, "identity:users:show", own)
    for other in ({"user_id": uuid.uuid4().hex}, {"user_id": "no id"}, {"user_id": None}, {}):
        assert not policy.allows(caller, "identity:users:show", other)
    nobody = RequestContext(None, "novella", None)
    assert not policy.allows(nobody, "identity:users:show", {"user_id": None})


def test_enforce_names_the_rule() -> None:
    with pytest.raises(ForbiddenError, match="compute:servers:create"):
        policy.enforce(context("reader"), "compute:servers:create")
    with pytest.raises(KeyError):
        policy.allows(context("admin"), "compute:servers:paint")
