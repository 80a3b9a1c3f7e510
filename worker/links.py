"""Addresses of the web in one canonical form."""

import re
from encodings.idna import nameprep
from functools import lru_cache
from string import ascii_letters, digits
from unicodedata import normalize
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

MAX_LINK_CHARS = 2048
# Control characters, spaces, halves of letters, and what browsers and servers read differently.
UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ud800-\udfff]")
ESCAPE = re.compile(r"%[0-9a-f]{2}", re.IGNORECASE)
UNRESERVED = {f"%{ord(c):02X}": c for c in f"{ascii_letters}{digits}-._~"}  # need no escape
MAX_HOST_CHARS, MAX_LABEL_CHARS = 253, 63
PIECE_CHARS = 32  # NFKC makes up to 18 of each
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
# IDNA's other full stops, and what browsers leave out of a host: not the joiners, which count.
HOST_SPELLINGS = str.maketrans(
    "\u3002\uff0e\uff61", "...",
    "\u00ad\u034f\u1806\u180b\u180c\u180d\u200b\u2060\ufeff"
    + "".join(map(chr, range(0xFE00, 0xFE10))),
)  # fmt: skip
UNFOLDED = "\u00df\u03c2"  # a sharp s and a final sigma name hosts of their own
SIGMA = "\u03a3"
ACE_PREFIX = "xn--"  # of a label that stands for other letters
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
        scheme, host = parts.scheme.lower(), canonical_host(_host_of(parts))
        port = parts.port or DEFAULT_PORTS.get(scheme)
        query = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        return None
    path = quote(_plain_path(parts.path), safe=PATH_CHARACTERS).rstrip("/")
    if scheme not in DEFAULT_PORTS or not host or "@" in parts.netloc or not path:
        return None
    kept = sorted((name, value) for name, value in query if not _is_tracking(name.lower()))
    where = host if port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
    return f"{where}{path}" + (f"?{urlencode(kept)}" if kept else "")


def _host_of(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.replace(SIGMA, SIGMA.lower())).hostname or ""


def _lower(host: str) -> str:
    """As browsers do: str.lower makes a final sigma of the last capital of a word."""
    return host.replace(SIGMA, SIGMA.lower()).lower()


def _plain_path(path: str) -> str:
    """Without escapes that need not be, and without steps such as `/./` and `/../`."""
    path = ESCAPE.sub(lambda found: UNRESERVED.get(found[0].upper(), found[0].upper()), path)
    if "/." not in path:
        return path
    steps: list[str] = []
    for step in path.split("/"):
        if step == ".." and len(steps) > 1:
            steps.pop()
        elif step not in (".", ".."):
            steps.append(step)
    return "/".join(steps)


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
    name = fold_host(host)
    if name and not name.isascii():
        name = _in_ascii(name)
    return without_prefixes(name) if name else None


def fold_host(host: str) -> str | None:
    """The same for all spellings of a host, which may keep letters that are not ASCII.

    None for one that is too long, before IDNA takes the square of a label's length. Browsers take
    the letters of IDNA 2008, where those of UNFOLDED stay; Python has IDNA 2003 alone.
    """
    name = _lower(host).rstrip(".")
    if len(name) > MAX_HOST_CHARS or name.isascii():
        return name if len(name) <= MAX_HOST_CHARS else None
    name, folded = name.translate(HOST_SPELLINGS), ""
    for start in range(0, len(name), PIECE_CHARS):
        piece = normalize("NFKC", name[start : start + PIECE_CHARS])
        folded += "".join(c if c in UNFOLDED else c.casefold() for c in piece)
        if len(folded) > 2 * MAX_HOST_CHARS:
            return None
    name = normalize("NFKC", folded).rstrip(".")
    is_long = len(name) > MAX_HOST_CHARS or max(map(len, name.split("."))) > MAX_LABEL_CHARS
    return None if is_long else name


@lru_cache(maxsize=4096)
def _in_ascii(name: str) -> str | None:
    """Of a folded name; None where a letter may not stand in a host."""
    labels = []
    for label in name.split("."):
        if not label.isascii():
            try:
                nameprep(label)  # refuses such letters
            except UnicodeError:
                return None
            label = ACE_PREFIX + label.encode("punycode").decode("ascii")
        if len(label) > MAX_LABEL_CHARS:
            return None
        labels.append(label)
    return ".".join(labels)


def without_prefixes(name: str) -> str:
    for prefix in HOST_PREFIXES:
        if name.startswith(prefix) and "." in name[len(prefix) :]:
            name = name[len(prefix) :]
    return name


@lru_cache(maxsize=4096)
def may_be_among(host: str, hosts: frozenset[str]) -> bool:
    """Whether an address with this host may be of one of these canonical hosts; quick.

    The host has its login and port, and at most MAX_HOST_CHARS.
    """
    if "[" in host:
        return host.isascii()  # an address of IPv6
    name, known = fold_host(host.rpartition("@")[2].partition(":")[0]) or "", _letters(hosts)
    return without_prefixes(".".join(known.get(each, each) for each in name.split("."))) in hosts


@lru_cache(maxsize=8)
def _letters(hosts: frozenset[str]) -> dict[str, str]:
    """The labels of hosts that stand for other letters, by these."""
    labels = {each for host in hosts for each in host.split(".") if each.startswith(ACE_PREFIX)}
    return {letters: label for label in labels if (letters := _label_letters(label))}


@lru_cache(maxsize=4096)
def _label_letters(label: str) -> str | None:
    try:
        return fold_host(label.removeprefix(ACE_PREFIX).encode().decode("punycode"))
    except UnicodeError:
        return None


def _is_tracking(name: str) -> bool:
    return name in TRACKING or name.startswith(TRACKING_PREFIXES)
