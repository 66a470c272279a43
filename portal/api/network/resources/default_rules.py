"""Default security group rules (Networking API v2.0 reference, "Security group default rules")."""

from dataclasses import dataclass
from typing import Any

from portal.api.common.validation import Schema
from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import Attribute
from portal.api.network.dialect.kinds import BOOLEAN, ID, TEXT, Kind, OrNone, quoted
from portal.api.network.dialect.resource import Resource
from portal.api.network.resources.security_groups import FLOW_ATTRIBUTES
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.network import services
from provisioning.network.models import DefaultSecurityGroupRule

PARENT = DefaultSecurityGroupRule.PARENT


@dataclass(frozen=True)
class RemoteGroup(Kind):
    """The id of a remote security group, ``PARENT`` for the group that the rule is copied to, or an empty text for
    none.
    """

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        found = read_id(value)
        if found is None and value not in {PARENT, ""}:
            raise ValueError(f"{quoted(value)} is neither {PARENT} nor a valid UUID")
        return str(found) if found else str(value)

    def write(self, value: Any) -> str | None:
        return value or None


def _create(context: RequestContext, values: Values) -> DefaultSecurityGroupRule:
    return services.create_default_rule({"ethertype": "IPv4", **values})


def _delete(context: RequestContext, row: DefaultSecurityGroupRule, revision: int | None) -> None:
    services.delete_default_rule(row.id)


def _many(context: RequestContext, *, all_projects: bool = False) -> list[DefaultSecurityGroupRule]:
    return services.default_rules()


def _one(context: RequestContext, identity: str, *, all_projects: bool = False) -> DefaultSecurityGroupRule:
    return services.default_rule(identity)


DEFAULT_SECURITY_GROUP_RULE = Resource(
    name="default_security_group_rule",
    list=Operation(_many),
    show=Operation(_one),
    create=Operation(_create),
    delete=Operation(_delete),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="id", kind=ID, sort=True),
        Attribute(name="description", kind=TEXT, post=True, sort=True),
        *FLOW_ATTRIBUTES,
        Attribute(name="remote_group_id", kind=OrNone(RemoteGroup()), column="remote_group", post=True),
        Attribute(name="remote_address_group_id", kind=OrNone(ID, empty=True), post=True),
        Attribute(name="used_in_default_sg", kind=BOOLEAN, post=True, default=False, sort=True),
        Attribute(name="used_in_non_default_sg", kind=BOOLEAN, post=True, default=True, sort=True),
    ),
)
