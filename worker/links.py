"""Addresses of the web in one canonical form."""

import re
from functools import lru_cache
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

MAX_LINK_CHARS = 2048
# Control characters, spaces, halves of letters, and what browsers and servers read differently.
UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff]")
ESCAPE = re.compile(r"%[0-9a-f]{2}", re.IGNORECASE)
MAX_HOST_CHARS = 253
MAX_PARAMETERS = 100
DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_PREFIXES = ("www.", "m.", "amp.")  # of the same page for another device
TRACKING_PREFIXES = ("utm_", "at_", "mc_", "ns_", "pk_", "mtm_", "hsa_")
TRACKING = {
    "fbclid", "gclid", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "twclid", "ttclid",
    "igshid", "igsh", "li_fat_id", "mkt_tok", "cmp", "cmpid", "ocid", "ncid", "icid", "smid",
    "smtyp", "xtor", "ref", "ref_src", "ref_url", "soc_src", "soc_trk", "sr_share", "guccounter",
    "guce_referrer", "guce_referrer_sig", "taid", "__twitter_impression", "ftag", "ito", "s_cid",
    "wprov",
}  # fmt: skip
PLAIN_HOST = re.compile(r"[a-z0-9.-]*+(?<!\.)")  # of others the canonical form decides
PATH_CHARACTERS = "/%:@!$&'()*+,;=-._~"  # those that need no escape, and escapes themselves


@lru_cache(maxsize=4096)
def canonical_link(address: str) -> str | None:
    """What two addresses of one page have in common; None for one that names no page.

    The scheme, www., m., amp., a trailing slash, the fragment and tracking parameters do not
    count. Refused: logins, backslashes, spaces, control characters, and a host without a path.
    """
    if len(address) > MAX_LINK_CHARS or UNSAFE.search(address):
        return None
    try:
        parts = urlsplit(address)
        scheme, host = parts.scheme.lower(), canonical_host(parts.hostname or "")
        port = parts.port or DEFAULT_PORTS.get(scheme)
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        return None
    path = quote(parts.path.rstrip("/"), safe=PATH_CHARACTERS)
    path = ESCAPE.sub(lambda found: found[0].upper(), path)
    if scheme not in DEFAULT_PORTS or not host or "@" in parts.netloc or not path:
        return None
    kept = sorted((name, value) for name, value in query if not _is_tracking(name.lower()))
    where = host if port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
    return f"{where}{path}" + (f"?{urlencode(kept)}" if kept else "")


def without_tracking(address: str) -> str:
    """The address without its fragment and tracking parameters, else as it is."""
    address = address.strip()
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    kept = [p for p in parts.query.split("&") if not _is_tracking(p.partition("=")[0].lower())]
    return urlunsplit(parts._replace(query="&".join(kept), fragment=""))


def canonical_host(host: str) -> str | None:
    """In ASCII, as browsers ask for it, without the prefixes for devices."""
    name = host.lower().rstrip(".")
    if not name or len(name) > MAX_HOST_CHARS:
        return None
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii").lower()
        except UnicodeError:
            return None
    return without_prefixes(name)


def without_prefixes(name: str) -> str:
    for prefix in HOST_PREFIXES:
        if name.startswith(prefix) and "." in name[len(prefix) :]:
            name = name[len(prefix) :]
    return name


@lru_cache(maxsize=4096)
def may_be_among(host: str, hosts: frozenset[str]) -> bool:
    """Whether an address with this host may be of one of these canonical hosts; quick."""
    name = without_prefixes(host.lower())
    return name in hosts or not PLAIN_HOST.fullmatch(name)


def _is_tracking(name: str) -> bool:
    return name in TRACKING or name.startswith(TRACKING_PREFIXES)
