"""Redis URLs: which ones work, and how to show one without its secrets."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

EMBEDDED: Final = "embedded"
_SCHEMES: Final = "redis://, rediss://, unix:// or embedded:"
_LATER: Final = {"redis+sentinel": "Sentinel", "redis+cluster": "Cluster"}
_OPTIONS: Final = frozenset(
    {"db", "client_name", "username", "password", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"}
    | {"ssl_cert_reqs", "ssl_check_hostname"}
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://)?")
_QUERY_SECRET: Final = re.compile(r"(password=)[^&]*", re.IGNORECASE)


def scheme_of(url: str) -> str:
    """The lower-case scheme, or "" if there is none."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def problem_with(url: str) -> str:
    """Say what is wrong with a Redis URL, as the end of a sentence and without quoting it; "" if nothing is."""
    scheme = scheme_of(url)
    if scheme == EMBEDDED:
        return "" if url == url.strip() and "?" not in url else "has more than a folder after embedded:"
    if scheme in _LATER:
        return f"names a {_LATER[scheme]}, which this build does not speak to yet: use {_SCHEMES}"
    if scheme not in {"redis", "rediss", "unix"} or "://" not in url:
        return f"does not begin with {_SCHEMES}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "has no valid host and port (are the special characters of its password percent-encoded?)"
    if parts.fragment:
        return "has a '#' (write it as %23 in a password)"
    unknown = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - _OPTIONS
    if unknown:
        return f"has options other than {', '.join(sorted(_OPTIONS))}"
    return _problem_with_place(scheme, parts, port)


def _problem_with_place(scheme: str, parts: SplitResult, port: int | None) -> str:
    if scheme == "unix":
        return "" if len(parts.path) > 1 else "has no path of a socket: write unix:///path/to/socket"
    if not parts.hostname:
        return f"has no host: write {scheme}://[[user]:password@]host[:port][/database]"
    if port == 0:
        return "has the port 0"
    database = parts.path.removeprefix("/")
    if database and not (database.isascii() and database.isdigit()):
        return "has a path that is no database number"
    return ""


def redact(url: str) -> str:
    """The URL with every password replaced by `***`, or all of it but the scheme if it is no valid one."""
    found = _SCHEME.match(url)
    if not found:
        return "***"
    head, rest = found[0], url[found.end() :]
    if scheme_of(url) == EMBEDDED:
        return url
    if problem_with(url):
        return f"{head}***"
    if "@" in rest:
        # Up to the last "@", as a password may hold one that was not encoded.
        secret, rest = rest.rsplit("@", 1)
        user, colon, _ = secret.partition(":")
        head += f"{user}:***@" if colon else "***@"
    return head + _QUERY_SECRET.sub(r"\1***", rest)
