"""What can go wrong with networks, in words for their users."""

from __future__ import annotations

from provisioning.common.errors import ConflictError, NovellaError


class OutOfAddressesError(NovellaError):
    """No free address is left on the network; another host would not help, so it is fatal for a launch."""

    code = "out_of_addresses"


class AmbiguousNetworkError(ConflictError):
    """A network has to be chosen, and more than one is possible."""

    code = "ambiguous_network"
