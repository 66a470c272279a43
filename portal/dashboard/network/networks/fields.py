"""Multi-line fields of addresses, ranges or routes; errors name the line."""

import re
from typing import Any

from django import forms

from portal.dashboard.words.plain import plain
from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.services.addressing import address_pairs

_ROUTE = re.compile(r"(\S+)\s+(?:via\s+)?(\S+)")
_POOL = re.compile(r"([0-9A-Fa-f.:]+)\s*-\s*([0-9A-Fa-f.:]+)")
_OPTION = re.compile(r"(?:(ipv[46])\s+)?([A-Za-z0-9][A-Za-z0-9+-]{0,63})\s+(\S.*)", re.ASCII | re.IGNORECASE)
_MAC = re.compile(r"[0-9A-Fa-f][02468ACEace]([:-][0-9A-Fa-f]{2}){5}")
MONO = "mono small"


def mac_of(text: str) -> str:
    """Read the MAC address of an interface. Raises ValueError."""
    if not _MAC.fullmatch(text):
        raise ValueError
    return text.lower().replace("-", ":")


class LinesField(forms.CharField):
    """Base of the fields with one value on each line. Commas also separate values, unless ``divider`` is another
    separator.
    """

    divider = r"[\n,]"

    def __init__(self, *, placeholder: str = "", rows: int = 2, **kwargs: Any) -> None:
        widget = forms.Textarea({"class": MONO, "rows": rows, "placeholder": placeholder})
        super().__init__(max_length=4000, required=False, widget=widget, **kwargs)

    def clean(self, value: Any) -> Any:
        """Return the values of the lines. Raises ValidationError with one message for each invalid line."""
        text = super().clean(value)
        result, wrong = [], []
        for line in filter(None, (part.strip() for part in re.split(self.divider, text))):
            try:
                result.append(self.read(line))
            except ValueError:
                wrong.append(f"{line[:64]}: {self.help()}")
        if wrong:
            raise forms.ValidationError(wrong)
        return result

    def read(self, line: str) -> Any:
        """Return the value of one line. Raises ValueError."""
        raise NotImplementedError

    def help(self) -> str:
        """Return a description of a valid line."""
        raise NotImplementedError


class AddressesField(LinesField):
    """IPv4 or IPv6 addresses, as text in normal form."""

    def read(self, line: str) -> str:
        return str(addressing.read_address(line))

    def help(self) -> str:
        return "this is not an address."


class PoolsField(LinesField):
    """Ranges from a first to a last address."""

    def read(self, line: str) -> dict[str, str]:
        match = _POOL.fullmatch(line)
        if match is None:
            raise ValueError
        return {"start": str(addressing.read_address(match[1])), "end": str(addressing.read_address(match[2]))}

    def help(self) -> str:
        return "enter the first and the last address, such as 10.0.0.10-10.0.0.99."


class RoutesField(LinesField):
    """Destination ranges with their next hops."""

    def read(self, line: str) -> dict[str, str]:
        match = _ROUTE.fullmatch(line)
        if match is None:
            raise ValueError
        network = addressing.read_prefix(match[1], loose=True).cidr
        hop = addressing.read_address(match[2])
        if network.version != hop.version:
            raise ValueError
        return {"destination": str(network), "nexthop": str(hop)}

    def help(self) -> str:
        return "enter a range and an address of the same IP version, such as 10.9.0.0/24 via 10.0.0.9."


class PairsField(LinesField):
    """Allowed address pairs: an address or range, optionally with a MAC address."""

    def clean(self, value: Any) -> Any:
        """Return the pairs in the API's format. Raises ValidationError for invalid pairs and for too many."""
        result = super().clean(value)
        try:
            address_pairs.checked(result, "")
        except InvalidInputError as error:
            raise forms.ValidationError(plain(error.message)) from None
        return result

    def read(self, line: str) -> dict[str, str]:
        address, *mac = line.split()
        if len(mac) > 1:
            raise ValueError
        parsed = addressing.read_prefix(address).cidr if "/" in address else addressing.read_address(address)
        return {"ip_address": str(parsed)} | ({"mac_address": mac_of(mac[0])} if mac else {})

    def help(self) -> str:
        return "enter an address or a range, optionally followed by a MAC address."


class OptionsField(LinesField):
    """DHCP options of a port: name and value, optionally preceded by the IP version."""

    divider = r"\n"
    most = 20

    def clean(self, value: Any) -> list[dict[str, Any]]:
        """Return the options in the API's format. Raises ValidationError."""
        result: list[dict[str, Any]] = super().clean(value)
        if len(result) > self.most:
            raise forms.ValidationError(f"Enter at most {self.most} options.")
        return result

    def read(self, line: str) -> dict[str, Any]:
        match = _OPTION.fullmatch(line)
        if match is None or not match[3].isprintable() or len(match[3]) > 255:
            raise ValueError
        return {
            "opt_name": match[2],
            "opt_value": match[3].strip(),
            "ip_version": 6 if (match[1] or "").endswith("6") else 4,
        }

    def help(self) -> str:
        return "enter a name and a value, such as mtu 1400 or ipv6 ntp-server fd00::1."


class CidrField(forms.CharField):
    """A valid range of a subnet, optionally of one IP version."""

    def __init__(self, *, version: int | None = None, **kwargs: Any) -> None:
        super().__init__(max_length=64, **kwargs)
        self.version = version

    def clean(self, value: Any) -> str:
        """Return the range. Raises ValidationError."""
        text: str = super().clean(value)
        if not text:
            return ""
        try:
            result = addressing.parse_cidr(text)
        except InvalidInputError as error:
            raise forms.ValidationError(plain(error.message)) from None
        if self.version is not None and result.version != self.version:
            raise forms.ValidationError(f"This is a range of IPv{result.version}: enter one of IPv{self.version}.")
        return str(result)
