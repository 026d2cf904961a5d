"""Everything that the page and the server say to each other, in one place.

HTTP (same origin only; JSON bodies are `application/json`)
    GET  /              the page (page/index.html). Where the server has a token, `/?token=TOKEN` sets an HttpOnly
                        cookie and redirects to `/`; without it every route answers 401. The page knows no token.
    GET  /static/FILE   the page's own files: page/FILE.
    POST /offer         body: an `Offer`, {"sdp": str, "session": str | null}. 200: an `Answer`, {"sdp": str,
                        "session": str}. Otherwise a `Refusal`, {"error": str}: a sentence to show as it is. 400 a bad
                        offer, 401 and 403 not allowed, 413 too large, 429 too many offers, 503 all lines are taken (the
                        refusal then has "full": true).
                        Keep `session` (sessionStorage) and give it with the next offer: the same conversation goes on,
                        also after an answer was lost, for two minutes after the last call.
    POST /bye           body {"session": str}: hang up; navigator.sendBeacon will do, and its content type does not
                        matter. 204, always.
    GET  /report/RUN    the report of a run folder, one HTML page. `hello.report` and `turn.report` are such addresses.

WebRTC: the page offers one microphone track (sendrecv) and one data channel, label "turnscope", ordered and reliable;
no ICE servers; the offer is sent when gathering is complete (2 s at most). The server's sound comes on the same line.
The page is gone when for 1.5 s neither sound nor a message came from it: send a `ping` every 200 ms. The server has
gone when no `pong` came for 1.5 s or the channel closed: make a new offer.

Data channel: one JSON object per message, `type` says which. Times are seconds unless named `_ms`; `server_ms` and
`at_ms` are the server's monotonic clock in milliseconds, `page_ms` the page's `performance.now()`. A `turn` is its
number in the conversation. To the page (`to_json`): Hello, State, Pong, Transcript, Says, Audible, TurnShown, Toggles,
Notice. From the page (`parse`): Ping, Toggle, HeardReport, Bye. What cannot be parsed is refused and changes nothing;
both sides pass over types and fields that they do not know.

The order in a turn: `transcript` (final false) any number of times, `transcript` final, `says` per phrase, `audible`,
`turn` with `complete` false (at the first audio), `turn` with `complete` true. A turn without words or that failed has
only the last one. A `state` and a `toggles` come whenever they change; after the channel opens: `hello`, `state`,
`toggles`, and, after a reconnect, `turn`s that ended meanwhile.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, cast

CHANNEL = "turnscope"
MAX_MESSAGE_BYTES = 4096  # from the page

Phase = Literal["waiting", "listening", "full", "ended"]


# To the page.


@dataclass(frozen=True)
class Hello:
    """The first message. `models` has asr, llm and tts, as the user knows them; `said` is the conversation so far
    (after a reconnect); `recording` announces that it is recorded, and where; `report` is the run's address."""

    type: ClassVar = "hello"
    session: str
    run: str
    report: str
    models: Mapping[str, str]
    said: list["Said"]
    recording: str | None = None


@dataclass(frozen=True)
class Said:
    who: Literal["user", "agent"]
    text: str


@dataclass(frozen=True)
class State:
    """Of the call: "waiting" (for the engines or the first sound), "listening" (speak), "full" and "ended" with the
    `reason`, a sentence. `callers` of `limit` lines are in use."""

    type: ClassVar = "state"
    phase: Phase
    reason: str | None
    callers: int
    limit: int


@dataclass(frozen=True)
class Pong:
    """Answers the `Ping` of this `id`: offset = server_ms - (page_ms sent + page_ms received) / 2, wrong by at most
    half of the round trip."""

    type: ClassVar = "pong"
    id: int
    server_ms: float


@dataclass(frozen=True)
class Transcript:
    """What the user says: replaces what came before for this turn, until it is final."""

    type: ClassVar = "transcript"
    turn: int
    text: str
    final: bool


@dataclass(frozen=True)
class Says:
    """A phrase of the reply, as it is given to the voice: appended to those before."""

    type: ClassVar = "says"
    turn: int
    text: str


@dataclass(frozen=True)
class Audible:
    """The reply's first audible sample leaves the server at `at_ms`, which may lie a little ahead. The first sound that
    the page plays after at least 0.2 s of silence belongs to it: answer with a `HeardReport`."""

    type: ClassVar = "audible"
    turn: int
    at_ms: float


@dataclass(frozen=True)
class WaterfallRow:
    """A bar, from `start_s` to `end_s` after the end of speech (negative: before). Bars of one `name` share a line.
    `kind` is "work", "wait", "host", "queue", "unattributed" or "network" (a row named "heard": from the server to the
    user's ear). `on_path_s` of its length is on the critical path: 0 is hidden work. `note` is a few words, or ""."""

    name: str
    label: str
    kind: str
    start_s: float
    end_s: float
    on_path_s: float
    note: str = ""


@dataclass(frozen=True)
class Delta:
    """A part of the latency beside the same part of the turn before: `change_s` is this turn's minus that one's. The
    first is the whole: name "latency"."""

    name: str
    label: str
    seconds: float
    change_s: float | None


@dataclass(frozen=True)
class TurnShown:
    """A turn as a waterfall: first when its first audio has left (`complete` false), again when it has ended and when
    the page has said when it was heard. `latency_s` None: nothing was heard of a reply; `ended` then says why.
    `heard_after_s` is the latency up to the user's ear, known to within `heard_error_s`. `settings` are the toggles'
    values by label with which it was made, `changed` those that differ from the turn before."""

    type: ClassVar = "turn"
    turn: int
    complete: bool
    latency_s: float | None
    ended: str
    breakdown: str
    rows: list[WaterfallRow]
    deltas: list[Delta]
    settings: Mapping[str, str]
    changed: list[str]
    heard_text: str
    report: str
    heard_after_s: float | None = None
    heard_error_s: float | None = None


@dataclass(frozen=True)
class Choice:
    """`reason` is None where it can be chosen."""

    value: str
    label: str
    reason: str | None = None


@dataclass(frozen=True)
class ToggleState:
    """Something that can be changed between turns. `shared`: it belongs to a model that others use, too. `reason` is
    None, or a sentence that says why it cannot be changed now."""

    name: str
    label: str
    value: str
    choices: list[Choice]
    shared: bool
    reason: str | None


@dataclass(frozen=True)
class Toggles:
    """All of them, as they are now; a changed one takes effect with the next turn."""

    type: ClassVar = "toggles"
    items: list[ToggleState]


@dataclass(frozen=True)
class Notice:
    """A sentence to show: a toggle that was refused, an engine that failed, history that was trimmed."""

    type: ClassVar = "notice"
    text: str


ToPage = Hello | State | Pong | Transcript | Says | Audible | TurnShown | Toggles | Notice


def to_json(message: ToPage) -> str:
    """What goes over the data channel."""
    return json.dumps({"type": message.type, **asdict(message)}, ensure_ascii=False, allow_nan=False)


# From the page.


class Refused(ValueError):
    """What the page sent is not what was agreed; the text says what is wrong with it."""


@dataclass(frozen=True)
class Ping:
    """Sent every 200 ms: keeps the call alive, and measures the offset of the clocks."""

    type: ClassVar = "ping"
    id: int


@dataclass(frozen=True)
class Toggle:
    """Asks for a toggle's value, of those that its `choices` list. The answer is a `Toggles`, or a `Notice`."""

    type: ClassVar = "toggle"
    name: str
    value: str


@dataclass(frozen=True)
class HeardReport:
    """The reply of `turn` was heard at `page_ms`, by getOutputTimestamp, the device's delay included. `offset_ms` is
    the server's clock minus the page's, from the ping with the shortest round trip of the last 10 s, and `error_ms`
    half of that round trip. From getStats, where the browser has them: the mean delay of the jitter buffer and of the
    output. `estimated`: the browser has no output timestamps, and the moment is currentTime + outputLatency."""

    type: ClassVar = "heard"
    turn: int
    page_ms: float
    offset_ms: float
    error_ms: float
    jitter_buffer_ms: float | None = None
    output_ms: float | None = None
    estimated: bool = False


@dataclass(frozen=True)
class Bye:
    """Hang up."""

    type: ClassVar = "bye"


FromPage = Ping | Toggle | HeardReport | Bye


def parse(data: str | bytes) -> FromPage | None:
    """A message of the page; None for a type that is not known. Raises Refused."""
    fields = _object(data)
    match fields.get("type"):
        case "ping":
            return Ping(_whole(fields, "id"))
        case "toggle":
            return Toggle(_text(fields, "name"), _text(fields, "value"))
        case "heard":
            return HeardReport(
                _whole(fields, "turn"),
                _number(fields, "page_ms"),
                _number(fields, "offset_ms"),
                _not_negative(fields, "error_ms"),
                _optional(fields, "jitter_buffer_ms"),
                _optional(fields, "output_ms"),
                fields.get("estimated") is True,
            )
        case "bye":
            return Bye()
        case str():
            return None
        case _:
            raise Refused("a message has a type")


# Over HTTP.


@dataclass(frozen=True)
class Offer:
    sdp: str
    session: str | None = None


@dataclass(frozen=True)
class Answer:
    sdp: str
    session: str


@dataclass(frozen=True)
class Refusal:
    error: str
    full: bool = field(default=False)


def parse_offer(data: str | bytes) -> Offer:
    """Raises Refused."""
    fields = _object(data, limit=None)
    session = fields.get("session")
    if session is not None and not (isinstance(session, str) and len(session) <= 100):
        raise Refused("`session` is a text or null")
    return Offer(_text(fields, "sdp", longest=None), session)


def parse_bye(data: str | bytes) -> str | None:
    """The session that hangs up; None where the body names none."""
    try:
        return _text(_object(data), "session")
    except Refused:
        return None


def _object(data: str | bytes, limit: int | None = MAX_MESSAGE_BYTES) -> Mapping[str, Any]:
    if limit is not None and len(data) > limit:
        raise Refused(f"a message has at most {limit} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise Refused("a message is one JSON object") from None
    if not isinstance(found, dict):
        raise Refused("a message is one JSON object")
    return cast(Mapping[str, Any], found)


def _text(fields: Mapping[str, Any], name: str, longest: int | None = 200) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value or (longest is not None and len(value) > longest):
        raise Refused(f"`{name}` is a short text")
    return value


def _number(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e13 <= value <= 1e13:
        raise Refused(f"`{name}` is a number")
    return float(value)


def _not_negative(fields: Mapping[str, Any], name: str) -> float:
    if (value := _number(fields, name)) < 0:
        raise Refused(f"`{name}` is not negative")
    return value


def _whole(fields: Mapping[str, Any], name: str) -> int:
    if (value := _number(fields, name)) != int(value) or value < 0:
        raise Refused(f"`{name}` is a whole number")
    return int(value)


def _optional(fields: Mapping[str, Any], name: str) -> float | None:
    return None if fields.get(name) is None else _not_negative(fields, name)
