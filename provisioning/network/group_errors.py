"""What can go wrong with security groups and their rules, by Neutron's names and in its sentences."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError


class SecurityGroupInUseError(ConflictError):
    """Ports are in the group."""


class SecurityGroupCannotRemoveDefaultError(ConflictError):
    """Every project keeps its default group."""


class SecurityGroupCannotUpdateDefaultError(ConflictError):
    """The default group keeps its name."""


class SecurityGroupDefaultAlreadyExistsError(ConflictError):
    """A project has one group called default."""


class SecurityGroupRuleExistsError(ConflictError):
    """The group allows exactly this already."""


class DefaultSecurityGroupRuleExistsError(ConflictError):
    """New security groups begin with exactly this already."""


class SecurityGroupRuleInvalidProtocolError(InvalidInputError):
    """No such protocol."""


class SecurityGroupInvalidPortRangeError(InvalidInputError):
    """Ports that are no range."""


class SecurityGroupInvalidPortValueError(InvalidInputError):
    """No port that the protocol has."""


class SecurityGroupInvalidProtocolForPortError(InvalidInputError):
    """A protocol without ports."""


class SecurityGroupProtocolRequiredWithPortsError(InvalidInputError):
    """Ports of no protocol."""


class SecurityGroupInvalidIcmpValueError(InvalidInputError):
    """No type or code of ICMP."""


class SecurityGroupMissingIcmpTypeError(InvalidInputError):
    """A code of ICMP without its type."""


class SecurityGroupEthertypeConflictWithProtocolError(InvalidInputError):
    """A protocol of the other IP version."""


class SecurityGroupRuleParameterConflictError(InvalidInputError):
    """A range of the other IP version."""


class SecurityGroupMultipleRemoteEntitiesError(InvalidInputError):
    """More than one remote."""

    neutron_type = "SecurityGroupMultipleRemoteEntites"


class SecurityGroupRuleInvalidEtherTypeError(InvalidInputError):
    """Neither IPv4 nor IPv6."""

    neutron_type = "SecurityGroupRuleInvalidEtherType"


class SecurityGroupConflictError(ConflictError):
    """Stateful and stateless groups on one port."""


class InvalidCIDRError(InvalidInputError):
    """A remote that is no range."""


class SecurityGroupNotSingleGroupRulesError(InvalidInputError):
    """Rules of several groups in one request."""


class AddressGroupNotFoundError(NotFoundError):
    """No such address group, or not the caller's."""


class AddressGroupInUseError(ConflictError):
    """Rules name the group."""


class AddressesNotFoundError(NotFoundError):
    """Ranges that the group does not have."""


class AddressesAlreadyExistError(InvalidInputError):
    """Ranges that the group has already."""


class DefaultSecurityGroupRuleNotFoundError(NotFoundError):
    """No such default rule."""


class SecurityGroupCannotBeAppliedError(InvalidInputError):
    """A security group for an interface without port security, in Nova's words."""

    def __init__(self, field: str = "security_groups") -> None:
        super().__init__(
            "Network requires port_security_enabled and subnet associated in order to apply security groups.",
            field=field,
        )
