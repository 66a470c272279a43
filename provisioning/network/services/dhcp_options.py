"""Which DHCP options of its own a port may have: what a DHCP server on a host can say."""

from collections.abc import Mapping, Sequence

from provisioning.common.errors import InvalidInputError

NUMBERS = range(1, 255)
"""Of options (RFC 2132); 0 and 255 pad and end a message."""
NAMES = {
    4: frozenset({
        "netmask", "time-offset", "router", "dns-server", "log-server", "lpr-server", "boot-file-size",
        "domain-name", "swap-server", "root-path", "extension-path", "ip-forward-enable",
        "non-local-source-routing", "policy-filter", "max-datagram-reassembly", "default-ttl", "mtu",
        "all-subnets-local", "router-discovery", "router-solicitation", "static-route",
        "trailer-encapsulation", "arp-timeout", "ethernet-encap", "tcp-ttl", "tcp-keepalive", "nis-domain",
        "nis-server", "ntp-server", "netbios-ns", "netbios-dd", "netbios-nodetype", "netbios-scope",
        "x-windows-fs", "x-windows-dm", "t1", "t2", "vendor-class", "nis+-domain", "nis+-server",
        "tftp-server", "bootfile-name", "mobile-ip-home", "smtp-server", "pop3-server", "nntp-server",
        "irc-server", "user-class", "rapid-commit", "client-arch", "client-interface-id",
        "client-machine-id", "posix-timezone", "tzdb-timezone", "ipv6-only", "domain-search", "sip-server",
        "classless-static-route", "vendor-id-encap", "tftp-server-address", "server-ip-address",
    }),
    6: frozenset({
        "sip-server-domain", "sip-server", "dns-server", "domain-search", "nis-server", "nis+-server",
        "nis-domain", "nis+-domain", "sntp-server", "information-refresh-time", "posix-timezone",
        "tzdb-timezone", "ntp-server", "bootfile-url", "bootfile-param",
    }),
}  # fmt: skip
"""Names by IP version, in small letters: what ``dnsmasq --help dhcp`` and ``--help dhcp6`` list."""
Options = Sequence[Mapping[str, object]]
"""``{"opt_name": text, "opt_value": text or None, "ip_version": 4 or 6}``, the last only if it is said."""


def merged(there: Options, said: Options) -> list[dict[str, object]]:
    """Return a port's options with those that were said in place of the same ones; one without a value goes.

    Raises InvalidInputError for a name that says nothing to a DHCP server.
    """
    _check(said)
    every = {(each["opt_name"], each.get("ip_version", 4)): dict(each) for each in [*there, *said]}
    return [each for each in every.values() if each.get("opt_value") is not None]


def _check(options: Options) -> None:
    for option in options:
        name, version = str(option["opt_name"]), int(str(option.get("ip_version", 4)))
        number = name.isascii() and name.isdecimal()
        known = int(name) in NUMBERS if number else name.lower() in NAMES[version]
        if option.get("opt_value") is not None and not known:
            msg = (
                f"Invalid input for extra_dhcp_opts. Reason: '{name[:64]}' is no DHCP option for IPv{version}: "
                f"name one that dnsmasq knows, or its number, {NUMBERS[0]} to {NUMBERS[-1]}."
            )
            raise InvalidInputError(msg, field="extra_dhcp_opts")
