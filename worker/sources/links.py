"""Addresses of articles: without what only counts readers, and told from each other."""

import re
from urllib.parse import urlsplit, urlunsplit

# What campaigns, social networks and publishers append to see where a reader comes from.
TRACKING = re.compile(
    r"(utm|mtm|at|hsa)_\w+|ns_(campaign|mchannel|source|linkname|fee)|mc_[ce]id|[gw]braid"
    r"|pk_(campaign|keyword|kwd|source|medium|content)|(fb|g|d|ms|y|tw|tt)clid|igsh(id)?"
    r"|cmp(id)?|xtor|ref_(src|url)|ftag|smid|ito|s_cid|wprov|__twitter_impression",
    re.IGNORECASE,
)
PORTS = {"http": 80, "https": 443}


def cleaned(link: str) -> str:
    """An address without its fragment and what only counts readers."""
    link = link.strip()
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    kept = [each for each in parts.query.split("&") if not TRACKING.fullmatch(each.split("=")[0])]
    return urlunsplit(parts._replace(query="&".join(kept), fragment=""))


def link_identity(link: str) -> str:
    """What is the same for all spellings of one address: whoever names it, however it is read."""
    link = cleaned(link)
    try:
        parts = urlsplit(link)
        port = "" if parts.port in (None, PORTS.get(parts.scheme)) else f":{parts.port}"
    except ValueError:
        return link
    if parts.scheme not in PORTS:
        return link
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.hostname}{port}{parts.path or '/'}{query}"
