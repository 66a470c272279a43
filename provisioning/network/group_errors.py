"""Errors of security groups and their rules, with Neutron's names and messages."""

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError


class SecurityGroupInUseError(ConflictError):
    """Ports use the group."""


class SecurityGroupCannotRemoveDefaultError(ConflictError):
    """A project's default group cannot be deleted."""


class SecurityGroupCannotUpdateDefaultError(ConflictError):
    """The default group cannot be renamed."""


class SecurityGroupDefaultAlreadyExistsError(ConflictError):
    """The project already has a group named default."""


class SecurityGroupRuleExistsError(ConflictError):
    """The group already has an equal rule."""


class DefaultSecurityGroupRuleExistsError(ConflictError):
    """An equal default rule already exists."""


class SecurityGroupRuleInvalidProtocolError(InvalidInputError):
    """The protocol is unknown."""


class SecurityGroupInvalidPortRangeError(InvalidInputError):
    """The first port exceeds the last one, or one of them is missing."""


class SecurityGroupInvalidPortValueError(InvalidInputError):
    """The port number is outside 1 to 65535."""


class SecurityGroupInvalidProtocolForPortError(InvalidInputError):
    """The rule has a port range, but its protocol has no ports."""


class SecurityGroupProtocolRequiredWithPortsError(InvalidInputError):
    """The rule has a port range but no protocol."""


class SecurityGroupInvalidIcmpValueError(InvalidInputError):
    """The ICMP type or code is outside 0 to 255."""


class SecurityGroupMissingIcmpTypeError(InvalidInputError):
    """The rule has an ICMP code but no type."""


class SecurityGroupEthertypeConflictWithProtocolError(InvalidInputError):
    """The protocol belongs to the other IP version."""


class SecurityGroupRuleParameterConflictError(InvalidInputError):
    """The range belongs to the other IP version."""


class SecurityGroupMultipleRemoteEntitiesError(InvalidInputError):
    """The rule has more than one remote."""

    neutron_type = "SecurityGroupMultipleRemoteEntites"


class SecurityGroupRuleInvalidEtherTypeError(InvalidInputError):
    """The ethertype is neither IPv4 nor IPv6."""

    neutron_type = "SecurityGroupRuleInvalidEtherType"


class SecurityGroupConflictError(ConflictError):
    """A port cannot have both stateful and stateless groups."""


class InvalidCIDRError(InvalidInputError):
    """The remote prefix is not a valid range."""


class SecurityGroupNotSingleGroupRulesError(InvalidInputError):
    """The rules of one request belong to several groups."""


class AddressGroupNotFoundError(NotFoundError):
    """The address group does not exist or is not visible to the caller."""


class AddressGroupInUseError(ConflictError):
    """Rules refer to the group."""


class AddressesNotFoundError(NotFoundError):
    """The group does not contain these ranges."""


class AddressesAlreadyExistError(InvalidInputError):
    """The group already contains these ranges."""


class DefaultSecurityGroupRuleNotFoundError(NotFoundError):
    """No such default rule."""


class SecurityGroupCannotBeAppliedError(InvalidInputError):
    """Security groups require an interface with port security; the message is Nova's."""

    def __init__(self, field: str = "security_groups") -> None:
        super().__init__(
            "Network requires port_security_enabled and subnet associated in order to apply security groups.",
            field=field,
        )
