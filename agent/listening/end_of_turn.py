"""How long a silence must last before the turn is taken for finished: less after a finished sentence, longer after an
unfinished one.

Two witnesses are heard: smart-turn's probability that the speaker has finished, from the sound, and how the words so
far end. The words change the odds that the sound gives (Bayes' rule, the two taken for independent), and the wait falls
with the logarithm of the odds, from the longest to the hangover.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

from agent.settings import EndpointSettings

_CONJUNCTIONS = (
    "and",
    "but",
    "or",
    "nor",
    "because",
    "although",
    "unless",
    "until",
    "whereas",
    "whether",
    "if",
    "than",
)
_DETERMINERS = ("a", "an", "the", "my", "your", "our", "their", "its", "every")
_FILLERS = ("um", "uh", "er", "erm", "hm", "hmm")
_SURE_TO_GO_ON = frozenset((*_CONJUNCTIONS, *_DETERMINERS, *_FILLERS))
_PREPOSITIONS = frozenset(
    ("of", "to", "with", "from", "into", "onto", "at", "for", "by", "between", "towards", "during")
)
_BREAKS_OFF = (",", ";", ":", "-", "\N{EN DASH}", "\N{EM DASH}", "...", "\N{HORIZONTAL ELLIPSIS}")
_ENDS = (".", "?", "!")
_ASKING_AT = (0.0, 0.2, 0.5)  # of the way from the hangover to the longest one
_SUREST = 1e-6  # no probability is taken for nearer to 0 or 1


class TextEnd(StrEnum):
    """Whether the words so far look like a whole sentence."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    UNKNOWN = "unknown"


def text_end(text: str) -> TextEnd:
    """How an English text ends. A full stop or question mark, which recognisers also put where they only ran out of
    sound, does not finish a sentence that ends with a conjunction, an article or a filler; after a preposition it says
    nothing."""
    said = text.rstrip().rstrip("\"'\N{RIGHT DOUBLE QUOTATION MARK}")
    words = said.rstrip(".?!").split()
    if not words:
        return TextEnd.UNKNOWN
    last = words[-1].lower()
    if said.endswith(_BREAKS_OFF):
        return TextEnd.UNFINISHED
    if last in _SURE_TO_GO_ON:
        return TextEnd.UNFINISHED
    if last in _PREPOSITIONS:
        return TextEnd.UNKNOWN if said.endswith(_ENDS) else TextEnd.UNFINISHED
    return TextEnd.FINISHED if said.endswith(_ENDS) else TextEnd.UNKNOWN


class EndOfTurn:
    """The rule. `asking_at_s` are the silences at which smart-turn is asked: more than once, since of a longer silence
    its answer may be another."""

    def __init__(self, settings: EndpointSettings):
        self.shortest_s = settings.effective_hangover_s
        self.longest_s = settings.max_hangover_s
        asking = _ASKING_AT[: settings.smart_turn_questions]
        self.asking_at_s = tuple(self._on_the_way(part) for part in asking)
        self._finished = _log_odds(settings.smart_turn_threshold)
        self._unfinished = _log_odds(settings.unfinished_threshold)
        self._weight = {
            TextEnd.FINISHED: math.log(settings.finished_text_odds),
            TextEnd.UNFINISHED: -math.log(settings.unfinished_text_odds),
            TextEnd.UNKNOWN: 0.0,
        }

    def questions_by(self, silence_s: float) -> int:
        """How often smart-turn is to have been asked in a silence of this length."""
        return sum(at_s <= silence_s for at_s in self.asking_at_s)

    def wait_s(self, probability: float, text: TextEnd) -> float:
        """The silence that ends the turn, given the probability (0 to 1) of a finished sentence by its sound and how
        the words so far end. With a probability of p' after the words are heard, it is the hangover from
        `smart_turn_threshold` on, the longest one down to `unfinished_threshold`, and between them on a line over
        log(p' / (1 - p'))."""
        log_odds = _log_odds(probability) + self._weight[text]
        if log_odds >= self._finished:
            return self.shortest_s
        if log_odds <= self._unfinished:
            return self.longest_s
        return self._on_the_way((self._finished - log_odds) / (self._finished - self._unfinished))

    def _on_the_way(self, part: float) -> float:
        return self.shortest_s + part * (self.longest_s - self.shortest_s)


def together(answers: Sequence[float]) -> float:
    """The probability that all of smart-turn's answers in a silence give: that of their mean log odds. A longer silence
    makes it surer of itself, inside a sentence too, so a later answer does not undo those before it."""
    mean = sum(map(_log_odds, answers)) / len(answers)
    return 1 / (1 + math.exp(-mean))


def _log_odds(probability: float) -> float:
    within = min(max(probability, _SUREST), 1 - _SUREST)
    return math.log(within / (1 - within))
