"""Every name that appears on a timeline, a span or a table: stages, kinds, attributes."""

from enum import StrEnum


class Kind(StrEnum):
    """What a step of a turn is. A wait is not work."""

    WORK = "work"  # a model's: its library's calls, and the features or phonemes made for them
    WAIT = "wait"  # a timer, a buffer that fills, silence that plays
    HOST = "host"  # our own code


class Stage(StrEnum):
    """The stages of a turn, in pipeline order. `QUEUE` and `UNATTRIBUTED` are gaps of the critical path, not steps."""

    ENDPOINT_WAIT = "endpoint.wait"
    VAD = "endpoint.vad"
    SMART_TURN = "endpoint.smart_turn"
    ASR_PARTIAL = "asr.partial"
    ASR_CHUNK_WAIT = "asr.chunk_wait"
    ASR_FINALIZE = "asr.finalize"
    LLM_PREFILL = "llm.prefill"
    LLM_THINKING = "llm.thinking"
    LLM_FIRST_PHRASE = "llm.first_phrase"
    LLM_DECODE = "llm.decode"
    TTS_SETUP = "tts.setup"
    TTS_FIRST_PATCH = "tts.first_patch"
    TTS_PATCHES = "tts.patches"
    PLAYOUT_BUFFER = "playout.start_buffer"
    PLAYOUT_HOLD = "playout.hold"  # the user made a sound, and it was not known yet whether it was words
    PLAYOUT_LEADING_SILENCE = "playout.leading_silence"
    PLAYOUT_PLAY = "playout.play"
    HOST = "host"
    QUEUE = "queue"
    UNATTRIBUTED = "unattributed"

    @property
    def order(self) -> int:
        return _ORDER[self]


_ORDER = {stage: place for place, stage in enumerate(Stage)}


KIND_OF_STAGE: dict[Stage, Kind] = {
    stage: Kind.WORK for stage in Stage if stage not in (Stage.QUEUE, Stage.UNATTRIBUTED)
} | {
    Stage.ENDPOINT_WAIT: Kind.WAIT,
    Stage.ASR_CHUNK_WAIT: Kind.WAIT,
    Stage.PLAYOUT_BUFFER: Kind.WAIT,
    Stage.PLAYOUT_HOLD: Kind.WAIT,
    Stage.PLAYOUT_LEADING_SILENCE: Kind.WAIT,
    Stage.PLAYOUT_PLAY: Kind.WAIT,
    Stage.HOST: Kind.HOST,
}

# The span tree of a turn. A group is a span that holds steps; a step is a span below its group.
AGENT = "invoke_agent turnscope"
ENDPOINT, ASR, LLM, TTS, PLAYOUT, HOST = "endpoint", "speech_to_text", "chat", "text_to_speech", "playout", "host"

SPAN_PATH_OF_STAGE: dict[Stage, tuple[str, ...]] = {
    Stage.ENDPOINT_WAIT: (ENDPOINT, "wait"),
    Stage.VAD: (ENDPOINT, "vad"),
    Stage.SMART_TURN: (ENDPOINT, "smart_turn"),
    Stage.ASR_PARTIAL: (ASR, "partial"),
    Stage.ASR_CHUNK_WAIT: (ASR, "chunk_wait"),
    Stage.ASR_FINALIZE: (ASR, "finalize"),
    Stage.LLM_PREFILL: (LLM, "prefill"),
    Stage.LLM_THINKING: (LLM, "thinking"),
    Stage.LLM_FIRST_PHRASE: (LLM, "decode", "first_phrase"),
    Stage.LLM_DECODE: (LLM, "decode", "phrase"),
    Stage.TTS_SETUP: (TTS, "setup"),
    Stage.TTS_FIRST_PATCH: (TTS, "patches", "first"),
    Stage.TTS_PATCHES: (TTS, "patches", "rest"),
    Stage.PLAYOUT_BUFFER: (PLAYOUT, "start_buffer"),
    Stage.PLAYOUT_HOLD: (PLAYOUT, "hold"),
    Stage.PLAYOUT_LEADING_SILENCE: (PLAYOUT, "leading_silence"),
    Stage.PLAYOUT_PLAY: (PLAYOUT, "play"),
    Stage.HOST: (HOST,),
}
GROUPS_WITH_MODEL = (ASR, LLM, TTS)  # their span name is "GROUP MODEL"


class EndReason(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"  # the whole reply was played
    INTERRUPTED = "interrupted"  # the user barged in on the reply
    CUT_OFF = "cut_off"  # the user went on inside a sentence that the agent took for finished
    BACKCHANNEL = "backchannel"  # the user only showed that they were listening, and the reply before went on
    NO_TRANSCRIPT = "no_transcript"  # speech was heard but no words recognised
    ERROR = "error"  # an engine failed
    STOPPED = "stopped"  # the run was stopped (Ctrl-C)


# Attributes. GenAI semantic conventions where they exist, `turnscope.*` elsewhere.
CONVERSATION_ID = "gen_ai.conversation.id"
OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
UNSPOKEN_TOKENS = "gen_ai.usage.reasoning.output_tokens"
FIRST_CHUNK_S = "gen_ai.response.time_to_first_chunk"
SERVER_ADDRESS, SERVER_PORT = "server.address", "server.port"  # of a language model over HTTP
INPUT_MESSAGES = "gen_ai.input.messages"  # content: only when asked for
OUTPUT_MESSAGES = "gen_ai.output.messages"  # content: only when asked for

RUN = "turnscope.run"  # of the resource: the run folder's name
TURN_INDEX = "turnscope.turn.index"
TURN_LATENCY_S = "turnscope.turn.latency_s"
TURN_END_REASON = "turnscope.turn.end_reason"
TURN_ERROR = "turnscope.turn.error"
TURN_SPEECH_START_NS = "turnscope.turn.speech_start_ns"
TURN_SPEECH_END_NS = "turnscope.turn.speech_end_ns"
TURN_SPEECH_END_ESTIMATED = "turnscope.turn.speech_end_estimated"
TURN_FIRST_AUDIO_NS = "turnscope.turn.first_audio_ns"
TURN_FIRST_AUDIO_STEP = "turnscope.turn.first_audio_step"
TURN_END_NS = "turnscope.turn.end_ns"
TURN_BARGE_IN_STOP_S = "turnscope.turn.barge_in_stop_s"  # speech having lasted long enough to last sample played
TURN_APOLOGY_S = "turnscope.turn.apology_s"  # of a turn that failed: how much of the spoken apology was heard
# When first audio was heard in the page, on the server's monotonic clock, and how far the clocks' offset may be off;
# of the time after A, what the page's jitter buffer and its output took. Estimated: without the output's own time.
TURN_HEARD_NS = "turnscope.turn.heard_ns"
TURN_HEARD_ERROR_S = "turnscope.turn.heard_error_s"
TURN_HEARD_ESTIMATED = "turnscope.turn.heard_estimated"
TURN_HEARD_JITTER_BUFFER_S = "turnscope.turn.heard_jitter_buffer_s"
TURN_HEARD_OUTPUT_S = "turnscope.turn.heard_output_s"
TURN_HEARD_WORDS = "turnscope.turn.heard_words"
TURN_REPLY_WORDS = "turnscope.turn.reply_words"

STEP_INDEX = "turnscope.step.index"
STEP_STAGE = "turnscope.step.stage"
STEP_CAUSES = "turnscope.step.causes"
STEP_WAITED_FOR = "turnscope.step.waited_for"
STEP_START_NS = "turnscope.step.start_ns"
STEP_END_NS = "turnscope.step.end_ns"
PHRASE = "turnscope.phrase"
GROUP = "turnscope.group"  # on the span of a group: which one
ERROR_TYPE = "error.type"  # on a step or a group that failed: its span's status becomes an error

ENDPOINT_KIND = "turnscope.endpoint.kind"  # what ended the turn: "hangover" (fixed), "smart_turn" (its answer, at
# once), "chosen_hangover" (a wait chosen after an answer), "max_hangover" (the longest)
ENDPOINT_HANGOVER_S = "turnscope.endpoint.hangover_s"  # the silence as it was, at the end of the turn or of a wait
ENDPOINT_SHORTEST_S = "turnscope.endpoint.shortest_s"  # the bounds of the silences that can be chosen
ENDPOINT_LONGEST_S = "turnscope.endpoint.longest_s"
ENDPOINT_PROBABILITY = "turnscope.endpoint.probability"  # of a finished sentence: of a step its answer, of the
# endpoint and its decisions that by all answers in the silence
ENDPOINT_TEXT = "turnscope.endpoint.text"  # how the words so far end: "finished", "unfinished", "unknown"
ENDPOINT_WAIT_S = (
    "turnscope.endpoint.wait_s"  # of a decision: the silence chosen; of a wait: the one it was to last for
)
ENDPOINT_PAUSES = "turnscope.endpoint.pauses"  # silences that were decided on and in which the user went on
# The decisions in the silence that ended the turn, one entry each: how long it had lasted, what was known, the silence
# chosen, and how much later the turn was taken for finished.
ENDPOINT_DECIDED_AT_S = "turnscope.endpoint.decision.at_s"
ENDPOINT_DECIDED_PROBABILITY = "turnscope.endpoint.decision.probability"
ENDPOINT_DECIDED_TEXT = "turnscope.endpoint.decision.text"
ENDPOINT_DECIDED_WAIT_S = "turnscope.endpoint.decision.wait_s"
ENDPOINT_DECIDED_COST_S = "turnscope.endpoint.decision.cost_s"

ASR_CHUNK_S = "turnscope.asr.chunk_s"
ASR_ENCODED_S = "turnscope.asr.encoded_s"
ASR_SPEECH_S = "turnscope.asr.speech_s"
ASR_RIGHT_CONTEXT = "turnscope.asr.right_context"  # frames of look-ahead
ASR_MODE = "turnscope.asr.mode"  # "cache-aware", "buffered"
ASR_LANGUAGE = "turnscope.asr.language"
ASR_CHUNKS = "turnscope.asr.chunks"  # passes over new sound
ASR_TOKENS = "turnscope.asr.tokens"  # decoder positions evaluated
ASR_FINAL_AFTER_S = "turnscope.asr.final_after_s"  # end of speech to final transcript
ASR_EMPTY = "turnscope.asr.empty"  # 1 when the final transcript has no words
ASR_PART_NS = "turnscope.asr.part.{}_ns"
ASR_PARTIALS = "turnscope.asr.partials"
ASR_PARTIALS_SKIPPED = "turnscope.asr.partials_skipped"

LLM_EVALUATED_TOKENS = "turnscope.llm.evaluated_tokens"
LLM_FINISH = "turnscope.llm.finish_reason"
LLM_WEIGHT_BYTES = "turnscope.llm.weight_bytes_per_token"  # read of the weights for one token
LLM_KV_BYTES = "turnscope.llm.kv_bytes"  # of a decode step: read of the KV cache, one entry per token
LLM_OPENING_TAG_TOKENS = "turnscope.llm.opening_tag_tokens"  # of a thought: its first tokens, which were injected ...
LLM_CLOSING_TAG_TOKENS = "turnscope.llm.closing_tag_tokens"  # ... and its last ones
LLM_DRAFTED_TOKENS = "turnscope.llm.drafted_tokens"  # speculative decoding: proposed ...
LLM_ACCEPTED_TOKENS = "turnscope.llm.accepted_tokens"  # ... and taken
LLM_SERVER_PREFILL_S = "turnscope.llm.server.prefill_s"  # a server's own figures
LLM_SERVER_DECODE_S = "turnscope.llm.server.decode_s"

TTS_PATCHES = "turnscope.tts.patches"
TTS_AUDIO_S = "turnscope.tts.audio_s"
TTS_DIFFUSION_STEPS = "turnscope.tts.diffusion_steps"
TTS_GUIDANCE = "turnscope.tts.guidance"
TTS_SEED = "turnscope.tts.seed"
TTS_SETUP_PART_NS = "turnscope.tts.setup.{}_ns"
TTS_PATCH_PART_NS = "turnscope.tts.patch.{}_ns"  # one entry per patch
TTS_FORWARDS = "turnscope.tts.forwards"  # of the diffusion module, one entry per patch
TTS_UNITS = "turnscope.tts.units"  # phonemes or text tokens

PLAYOUT_LEADING_SILENCE_S = "turnscope.playout.leading_silence_s"
PLAYOUT_BUFFER_S = "turnscope.playout.start_buffer_s"
PLAYOUT_UNDERRUNS = "turnscope.playout.underruns"
PLAYOUT_UNDERRUN_S = "turnscope.playout.underrun_s"
PLAYOUT_PAUSES = "turnscope.playout.pauses"  # times that the user held the reply back; each is a step of its own, too
PLAYOUT_PAUSED_S = "turnscope.playout.paused_s"

WORK_FLOPS = "turnscope.work.flops"
WORK_BYTES = "turnscope.work.bytes"
WORK_STEPS = "turnscope.work.steps"

WHAT = "turnscope.what"  # a few words that say what a host or wait step was

# Arrays: one entry per step of a model's loop, offsets in ns from the span's start.
START_TIMES_NS = "turnscope.times.start_ns"
END_TIMES_NS = "turnscope.times.end_ns"
