"""Which addresses a page may be fetched from."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.actions.seeds.addresses import OwnNetwork, is_inside, is_public

INSIDE = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "::/127",
    "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "2001:db8::/32", "64:ff9b:1::/48",
    "::ffff:10.0.0.0/104", "::ffff:127.0.0.0/104", "64:ff9b::192.168.0.0/112", "2002:a00::/24",
    "2001::/32",
]  # fmt: skip


@pytest.mark.parametrize(
    "address",
    ["192.0.0.192", "168.63.129.16", "100.100.100.200", "169.254.169.254", "fd00:ec2::254",
     "::ffff:168.63.129.16", "2002:a83f:8110::", "64:ff9b::192.0.0.192"],
)  # fmt: skip
def test_no_address_of_a_cloud_s_metadata_is_public(address: str) -> None:
    assert not is_public(address)
    assert not is_inside(address)


@given(st.sampled_from(INSIDE), st.data())
def test_no_address_of_these_networks_is_public(network: str, data: st.DataObject) -> None:
    known = ip_network(network)
    address = data.draw(st.integers(0, known.num_addresses - 1))
    assert not is_public(str(ip_address(int(known.network_address) + address)))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
)
def test_addresses_of_the_open_internet_are_public(address: str) -> None:
    assert is_public(address)
    assert not is_inside(address)


OWN = [
    "10.0.0.0/8", "100.64.0.0/12", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128",
    "fc00::/8", "fd12::/16", "fec0::/10", "::ffff:10.0.0.0/104", "64:ff9b::192.168.0.0/112",
]  # fmt: skip
NOBODYS = ["0.0.0.0/32", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4", "fe80::/10", "ff00::/8",
           "::/128", "fd00:ec2::/32", "::ffff:169.254.0.0/112"]  # fmt: skip


@given(st.sampled_from(OWN), st.data())
def test_an_own_network_is_inside(network: str, data: st.DataObject) -> None:
    known = ip_network(network)
    address = data.draw(st.integers(0, known.num_addresses - 1))
    assert is_inside(str(ip_address(int(known.network_address) + address)))


@given(st.sampled_from(NOBODYS), st.data())
def test_what_is_nobody_s_page_is_not(network: str, data: st.DataObject) -> None:
    known = ip_network(network)
    address = data.draw(st.integers(0, known.num_addresses - 1))
    assert not is_inside(str(ip_address(int(known.network_address) + address)))


def test_from_outside_nothing_leads_in() -> None:
    allow = OwnNetwork()
    assert [allow("10.0.0.1"), allow("192.168.0.1"), allow("169.254.169.254")] == [
        True,
        True,
        False,
    ]
    assert [allow("8.8.8.8"), allow("10.0.0.1"), allow("1.1.1.1")] == [True, False, True]
