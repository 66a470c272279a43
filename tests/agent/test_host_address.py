"""The address at which a host listens for other hosts."""

import socket

import pytest

from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.errors import NotExportedError

LOOPBACK, ELSEWHERE = "127.0.0.1", "192.0.2.1"


@pytest.mark.parametrize(("reached", "bound"), [(LOOPBACK, LOOPBACK), (ELSEWHERE, "0.0.0.0")])  # noqa: S104
def test_a_host_behind_nat_listens_on_all_its_addresses(reached: str, bound: str) -> None:
    with Address(lambda: reached).listening() as result:
        assert result.getsockname()[0] == bound
    assert Address(lambda: reached).bind() == bound


def test_a_port_in_use_is_not_used() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NotExportedError):
            Address(lambda: LOOPBACK).bind(port)
        with pytest.raises(RetryableHostError):
            MigrationAddress(lambda: LOOPBACK, None, (port, port)).listen()


def test_a_host_without_an_address_receives_no_guests() -> None:
    with pytest.raises(RetryableHostError):
        MigrationAddress(str, None, (1, 1)).listen()
