"""How much is measured."""

from dataclasses import dataclass

from profiling.machine import Probe


@dataclass(frozen=True)
class Effort:
    """ASR: of each chunk size so many streams of `asr_passes` passes after the first, each ended by a flush.

    LLM: so many prompts of each length, and `llm_tokens` tokens decoded after one. TTS: for each number of diffusion
    steps, phrases cut at each of `tts_patches`, and `tts_checked` more whose first audio is predicted from them; all of
    `tts_words` words. The turn's reply has at most `turn_tokens` tokens, each of its phrases `turn_patches` patches of
    `turn_steps` diffusion steps. A `probe` of None is the one that suits the device.
    """

    asr_chunks_ms: tuple[int, ...] = (80, 160, 320, 560, 1120)
    asr_streams: int = 2
    asr_passes: int = 3
    llm_prompts: tuple[tuple[int, int], ...] = ((64, 3), (256, 3))
    llm_tokens: int = 24
    tts_steps: tuple[int, ...] = (10, 6, 4)
    tts_patches: tuple[int, ...] = (2, 3, 4, 5)
    tts_checked: int = 3
    tts_words: int = 6
    turn_scenario: str = "go-forward"
    turn_tokens: int = 10
    turn_patches: int = 4
    turn_steps: int = 10
    ceiling_repetitions: int = 3
    probe: Probe | None = None


ON_GPU = Effort()
ON_CPU = Effort(llm_prompts=((64, 3), (256, 1)), tts_steps=(10, 4), tts_patches=(2, 3, 4), tts_checked=2, turn_steps=4)
QUICK = Effort(
    asr_chunks_ms=(80, 320, 1120),
    asr_streams=1,
    llm_prompts=((64, 1),),
    llm_tokens=8,
    tts_steps=(4,),
    tts_patches=(2, 3),
    tts_checked=1,
    turn_steps=4,
)
