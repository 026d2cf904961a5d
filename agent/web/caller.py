"""What is kept of a caller while the line is down: the conversation, and what the page has not been told."""

from dataclasses import dataclass, field

from agent.conversation import Conversation
from agent.llm.history import new_history
from agent.web.choices import Choices
from agent.web.messages import Said, TurnShown
from agent.web.service import CallRecorder
from agent.web.shown import ShownTurns


@dataclass
class Caller:
    """`unsent` are the turns that ended while the page was away. A recorder records all calls of a caller."""

    session: str
    choices: Choices
    turns: ShownTurns
    conversation: Conversation | None = None
    recorder: CallRecorder | None = None
    unsent: list[TurnShown] = field(default_factory=list[TurnShown])

    def said(self) -> list[Said]:
        """Without what every conversation begins with."""
        if self.conversation is None:
            return []
        return [
            Said("user" if message.role == "user" else "agent", message.content)
            for message in self.conversation.history[len(new_history(self.choices.settings.llm).opening()) :]
        ]

    def forget(self) -> None:
        """The caller does not come back"""
        if self.recorder is not None:
            self.recorder.close()
