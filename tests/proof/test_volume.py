"""Point 9, first half: a turn of 5,000 tokens keeps every one of them."""

from pathlib import Path

from agent.settings import load
from profiling.operations import TOKEN, operations
from profiling.run import load_run
from profiling.trace import vocabulary as v
from profiling.trace.vocabulary import Stage
from tests.fakes.talk import Talk, says
from tests.proof.recorded import recorded_talk

SPOKEN, THOUGHT = 1000, 4000


def test_5000_tokens_of_a_turn_are_all_in_its_trace_the_first_one_too(tmp_path: Path) -> None:
    made: list[tuple[int, int]] = []

    def prepare(result: Talk) -> None:
        result.engines.tts.word_s = 0.002  # type: ignore[attr-defined]
        llm = result.engines.llm
        llm.token_cost_s = 0.001  # type: ignore[attr-defined]
        token = llm._token  # type: ignore[attr-defined]

        def noting(text: str, unspoken: bool) -> object:
            one = token(text, unspoken)
            made.append((one.start_ns, one.end_ns))
            return one

        llm._token = noting  # type: ignore[attr-defined]

    settings = load(flags={"llm": {"thinking_tokens": THOUGHT}})
    reply = " ".join(f"Word number {n} of it." for n in range(SPOKEN // 5))
    _, folder = recorded_talk(tmp_path, [says("hello")], [reply], settings, prepare)
    (turn,) = load_run(folder).turns
    tokens = [operation for operation in operations(turn) if operation.name == TOKEN]
    assert len(made) == SPOKEN + THOUGHT == 5000
    assert [(token.start_ns, token.end_ns) for token in tokens] == made
    assert [token.stage for token in tokens[:: THOUGHT - 1][:2]] == [Stage.LLM_THINKING] * 2
    group = turn.groups[(v.LLM, None)]
    assert (group[v.OUTPUT_TOKENS], group[v.UNSPOKEN_TOKENS]) == (5000, THOUGHT)
