"""Who may ask, how often, and what an offer may look like: what is wrong is refused before anything is made of it."""

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import TurnscopeError
from agent.web.messages import Refused

COOKIE = "turnscope"
MAX_BODY_BYTES = 64 * 1024
SHORTEST_TOKEN = 16
MAX_CANDIDATES = 32
OFFERS_PER_CALLER, OFFERS_IN_ALL, PER_S = 10, 30, 10.0  # at most so many offers in so many seconds

_MEDIA = re.compile(r"^m=(\w+) ", re.MULTILINE)
_NEEDED = {
    "an ICE user name": re.compile(r"^a=ice-ufrag:[\w+/]{4,256}\r?$", re.MULTILINE),
    "an ICE password": re.compile(r"^a=ice-pwd:[\w+/]{22,256}\r?$", re.MULTILINE),
    "a SHA-256 fingerprint": re.compile(
        r"^a=fingerprint:sha-256 ([0-9a-f]{2}:){31}[0-9a-f]{2}\r?$", re.MULTILINE | re.I
    ),
    "the codec Opus": re.compile(r"^a=rtpmap:\d+ opus/48000/2\r?$", re.MULTILINE | re.I),
}


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, token: str | None, certificate: Path | None, key: Path | None) -> None:
    """Raises TurnscopeError: whoever else's machine can reach the server needs a token, and what is said is to be
    encrypted."""
    if token is not None and not (len(token) >= SHORTEST_TOKEN and token.isascii() and token.isprintable()):
        raise TurnscopeError(f"--token needs {SHORTEST_TOKEN} letters or digits at least, which nobody can guess.")
    if (certificate is None) != (key is None):
        raise TurnscopeError("--certificate and --key belong together: give both PEM files, or none.")
    if not is_loopback(host) and (token is None or certificate is None):
        raise TurnscopeError(
            f"Others could reach {host}: give --token, --certificate and --key with it, or leave --host out, which "
            "serves this machine alone."
        )


@dataclass
class Rate:
    """At most `most` events in any `per_s` seconds."""

    most: int
    per_s: float = PER_S
    _times: deque[float] = field(default_factory=deque[float])

    def allows(self, now_s: float) -> bool:
        while self._times and self._times[0] <= now_s - self.per_s:
            self._times.popleft()
        if len(self._times) >= self.most:
            return False
        self._times.append(now_s)
        return True

    def idle(self, now_s: float) -> bool:
        return not self._times or self._times[-1] <= now_s - self.per_s


class OfferRate:
    """How many offers are let through: of one address, and of all."""

    def __init__(self) -> None:
        self._all = Rate(OFFERS_IN_ALL)
        self._by_address: dict[str, Rate] = {}

    def allows(self, address: str, now_s: float) -> bool:
        self._by_address = {a: rate for a, rate in self._by_address.items() if not rate.idle(now_s)}
        rate = self._by_address.setdefault(address, Rate(OFFERS_PER_CALLER))
        return rate.allows(now_s) and self._all.allows(now_s)


class Guard:
    """Judges requests by their headers. Without a token the server's own machine alone reaches it, and the `Host` must
    name it, so that no other site's name leads here."""

    def __init__(self, host: str, port: int, token: str | None, *, encrypted: bool):
        self._token = token
        self._scheme = "https" if encrypted else "http"
        names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
        ports = {f":{port}"} | ({""} if port == (443 if encrypted else 80) else set())
        self._hosts = {name + end for name in names for end in ports} if is_loopback(host) else None
        self._cookie = hashlib.sha256(secrets.token_bytes(32)).hexdigest()

    @property
    def cookie(self) -> str:
        """What a browser that knew the token shows from then on."""
        return self._cookie

    @property
    def needs_token(self) -> bool:
        return self._token is not None

    def is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def knows(self, cookies: Mapping[str, str]) -> bool:
        return not self.needs_token or hmac.compare_digest(cookies.get(COOKIE, "").encode(), self._cookie.encode())

    def right_host(self, host: str | None) -> bool:
        return host is not None and (self._hosts is None or host.lower() in self._hosts)

    def same_origin(self, headers: Mapping[str, str]) -> bool:
        """Whether a request that changes something comes from our own page."""
        origin = f"{self._scheme}://{headers.get('Host', '')}".lower()
        site = headers.get("Sec-Fetch-Site", "same-origin")
        return headers.get("Origin", "").lower() == origin and site in ("same-origin", "none")


def check_offer(sdp: str) -> None:
    """One line of sound in Opus, at most one data channel, what ICE and DTLS need, and not too many addresses. Raises
    Refused."""
    if any(ord(letter) < 32 and letter not in "\r\n" for letter in sdp):
        raise Refused("the offer has control characters")
    media = _MEDIA.findall(sdp)
    if media.count("audio") != 1 or media.count("application") > 1 or set(media) - {"audio", "application"}:
        raise Refused("the offer must have one audio line and at most one data channel")
    if lacking := list(_lacking(sdp)):
        raise Refused(f"the offer lacks {' and '.join(lacking)}")
    if sdp.count("a=candidate:") > MAX_CANDIDATES:
        raise Refused(f"the offer has more than {MAX_CANDIDATES} candidates")


def _lacking(sdp: str) -> Iterable[str]:
    return (what for what, pattern in _NEEDED.items() if not pattern.search(sdp))
