"""Which addresses may be asked for a page: those of the open Internet, or an own network too."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

NAT64 = IPv6Network("64:ff9b::/96")
SHARED = IPv4Network("100.64.0.0/10")
# Inside clouds these answer with the machine's own secrets, be their ranges public or private.
METADATA = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("168.63.129.16/32"),
    IPv4Network("100.100.100.200/32"),
    IPv6Network("fd00:ec2::/32"),
    IPv6Network("fd20:ce::254/128"),
)
Address = IPv4Address | IPv6Address


def is_public(address: str) -> bool:
    """Whether an address is one of the open Internet: not private, local, reserved or multicast."""
    found = _meant(address)
    if isinstance(found, IPv6Address) and found.is_site_local:
        return False
    if _is_metadata(found):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved)


def is_inside(address: str) -> bool:
    """Whether an address is one of an own network, this machine's included."""
    found = _meant(address)
    if found.is_link_local or found.is_multicast or found.is_unspecified or _is_metadata(found):
        return False
    if isinstance(found, IPv6Address):
        return found.is_private or found.is_site_local
    return (found.is_private and not found.is_reserved) or found in SHARED


class OwnNetwork:
    """Allows an own network, until a host of the open Internet was asked: that leads nowhere in."""

    def __init__(self) -> None:
        self._left = False

    def __call__(self, address: str) -> bool:
        """Whether this address may be asked now."""
        if is_public(address):
            self._left = True
            return True
        return not self._left and is_inside(address)


def _meant(address: str) -> Address:
    """The address; of one that holds an older one, that."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return found
    inner = found.ipv4_mapped or found.sixtofour
    if found in NAT64:
        inner = IPv4Address(int(found) & 0xFFFFFFFF)
    return found if inner is None else inner


def _is_metadata(found: Address) -> bool:
    return any(found in network for network in METADATA)
