"""A conversation with fake engines in virtual time whose run folder is written as the product writes it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from agent.cli.session import Session
from agent.events import Event
from agent.scenario import Utterance
from agent.settings import Settings, load, recorded
from profiling.run import RunWriter
from tests.fakes.talk import Talk, talk


def recorded_talk(
    parent: Path,
    utterances: Sequence[Utterance],
    replies: Sequence[str] = (),
    settings: Settings | None = None,
    prepare: Callable[[Talk], None] | None = None,
) -> tuple[Talk, Path]:
    """The conversation and its run folder."""
    settings = settings or load()
    sessions: list[Session] = []

    def record(result: Talk) -> None:
        if prepare:
            prepare(result)
        writer = RunWriter(parent, "proof", result.clock, settings=recorded(settings))
        session, observe = Session(writer, settings.capture_content, None), result.observe
        sessions.append(session)

        def observing(event: Event) -> None:
            observe(event)
            session.observe(event)

        result.observe = observing  # type: ignore[method-assign,assignment]

    result = talk(utterances, replies, settings, record)
    (session,) = sessions
    session.complete = True
    session.close()
    return result, session.writer.folder
