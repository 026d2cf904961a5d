"""Turns without a microphone and without real time: the language model up to the end of its first phrase, then the
voice up to its first patch, on one thread, recorded as a conversation records them.

What is said is settled beforehand: a thought of another length, or weights in another format, would change the words
and so the length of the first phrase, which no law predicts. `settled` finds a length that all of them reach.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.llm.protocol import Finished, LlmEngine, Message, Prefill, Token
from agent.loops import add_loop, by_part
from agent.thinking import tag_tokens
from agent.tts.phrases import PhraseCutter
from agent.tts.protocol import Patch, Setup, TtsEngine
from agent.tts.speakable import speakable
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Attribute, Turn
from profiling.trace.vocabulary import EndReason, Stage

_MOST_TOKENS = 48  # of a first phrase


@dataclass(frozen=True)
class Line:
    """What is asked, and the first phrase of the reply: its tokens, and the text that the voice gets."""

    messages: Sequence[Message]
    tokens: int
    text: str


@dataclass(frozen=True)
class Pipeline:
    """`thinking` is the budget of unspoken tokens, the model's tags not among them."""

    llm: LlmEngine
    tts: TtsEngine
    clock: Clock
    thinking: int

    def line(self, messages: Sequence[Message]) -> Line:
        """As this pipeline answers."""
        cutter, tokens = PhraseCutter(), 0
        for item in self._generate(messages):
            if isinstance(item, Token) and not item.unspoken:
                tokens += 1
                if phrases := cutter.push(item.text):
                    return Line(messages, tokens, speakable(phrases[0].text, "en"))
        rest = cutter.flush()
        return Line(messages, tokens, speakable(rest[0].text if rest else "Yes.", "en"))

    def said(self, messages: Sequence[Message]) -> tuple[int, int]:
        """How many tokens this pipeline would think and say."""
        tokens = [item for item in self._generate(messages) if isinstance(item, Token)]
        unspoken = sum(token.unspoken for token in tokens)
        return unspoken, len(tokens) - unspoken

    def turn(self, number: int, line: Line) -> Turn:
        """From the question to the end of the first patch."""
        begin_ns = self.clock.now_ns()
        turn = Turn("direct", number, begin_ns, speech_end_ns=begin_ns, speech_end_estimated=False)
        thought = self._think(turn, line)
        self._speak(turn, line, thought)
        turn.end_ns, turn.end_reason = self.clock.now_ns(), EndReason.COMPLETED
        return turn

    def _think(self, turn: Turn, line: Line) -> int | None:
        """The step that ended the first phrase."""
        cause: int | None = None
        unspoken: list[Token] = []
        visible: list[Token] = []
        for item in self._generate(line.messages):
            if isinstance(item, Prefill):
                cause = turn.add(Stage.HOST, turn.speech_start_ns, item.start_ns, attributes={v.WHAT: "render prompt"})
                evaluated = {v.LLM_EVALUATED_TOKENS: item.evaluated_tokens or 0}
                cause = turn.add(Stage.LLM_PREFILL, item.start_ns, item.end_ns, [cause], attributes=evaluated)
            elif isinstance(item, Token):
                (unspoken if item.unspoken else visible).append(item)
                if len(visible) == line.tokens:
                    break
        cause = self._tokens(turn, Stage.LLM_THINKING, unspoken, cause, tag_tokens(unspoken))
        cause = self._tokens(turn, Stage.LLM_FIRST_PHRASE, visible, cause, {})
        turn.describe(v.LLM, {v.MODEL: self.llm.model, v.UNSPOKEN_TOKENS: len(unspoken), v.OUTPUT_TOKENS: len(visible)})
        return cause

    def _tokens(
        self, turn: Turn, stage: Stage, tokens: Sequence[Token], cause: int | None, more: Mapping[str, Attribute]
    ) -> int | None:
        if not tokens:
            return cause
        intervals = [(token.start_ns, token.end_ns) for token in tokens]
        read = {v.LLM_KV_BYTES: [token.kv_bytes or 0 for token in tokens], **more}
        return add_loop(turn, stage, intervals, [cause], 0 if stage is Stage.LLM_FIRST_PHRASE else None, read)

    def _speak(self, turn: Turn, line: Line, cause: int | None) -> None:
        thought_ns = turn.steps[-1].end_ns
        for item in self.tts.synthesise(line.text, lambda: False):
            if isinstance(item, Setup):
                cause = turn.add(Stage.HOST, thought_ns, item.start_ns, [cause], phrase=0)
                parts = {v.TTS_SETUP_PART_NS.format(part): ns for part, ns in item.parts_ns.items()}
                facts = {v.TTS_UNITS: item.units, **parts}
                cause = turn.add(Stage.TTS_SETUP, item.start_ns, item.end_ns, [cause], phrase=0, attributes=facts)
            else:
                self._first_patch(turn, item, cause)
                break

    def _first_patch(self, turn: Turn, patch: Patch, cause: int | None) -> None:
        interval = [(patch.start_ns, patch.end_ns)]
        facts = by_part(v.TTS_PATCH_PART_NS, [patch.parts_ns])
        if patch.forwards:
            facts[v.TTS_FORWARDS] = [patch.forwards]
        turn.first_audio_step = add_loop(turn, Stage.TTS_FIRST_PATCH, interval, [cause], 0, facts)
        turn.first_audio_ns = patch.end_ns
        audio_s = len(patch.samples) / self.tts.sample_rate
        known = {v.MODEL: self.tts.model, **self.tts.attributes, v.TTS_PATCHES: 1, v.TTS_AUDIO_S: audio_s}
        turn.describe(v.TTS, known, phrase=0)

    def _generate(self, messages: Sequence[Message]) -> Iterator[Prefill | Token | Finished]:
        return self.llm.generate(
            messages, thinking_tokens=self.thinking, max_tokens=_MOST_TOKENS, should_stop=lambda: False
        )


def settled(line: Line, pipelines: Sequence[Pipeline]) -> Line:
    """With no more tokens in the first phrase than every one of the pipelines says."""
    return replace(line, tokens=min(line.tokens, *(one.said(line.messages)[1] for one in pipelines)))
