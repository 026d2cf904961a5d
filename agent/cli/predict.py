"""`turnscope predict`: what the laws say of a model on a machine, without a run."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import click
from rich.console import Console

from agent.cli import consoles
from agent.cli.predict_options import Given
from agent.cli.quantity_option import Quantity
from agent.errors import TurnscopeError
from profiling import catalogue, quantities
from profiling.answers import Answer, NotPredictable
from profiling.answers_llm import USUAL_SHARES, of_language_model
from profiling.answers_sound import of_recogniser, of_voice
from profiling.catalogue import LanguageModel, Recogniser, UnknownName, Voice
from profiling.formats import UnknownFormat
from profiling.report.predict import print_answers, print_ceilings

_TABLE_MODELS = ("dense-8b", "dense-14b", "dense-70b", "moe-30b", "gemma-4-12b")
_TABLE_FORMAT = "Q4_K_M"
_LEAST_WIDTH = 100
_MACHINE = ("machine", "bandwidth", "flops")
_OF_VOICE = ("model", *_MACHINE, "audio", "diffusion_steps", "fixed", "patch")
_OF_RECOGNISER = ("model", *_MACHINE, "chunk", "weight_format")
_OF_TABLE = (
    *("model", "machine", "bandwidth", "parameters", "active"),
    *("weight_format", "bits", "weights", "kv_per_token", "context"),
)
_ADVICE = (
    f"Real machines reach {USUAL_SHARES[0]} to {USUAL_SHARES[1]} of these. "
    "With --machine and --model: everything else that the laws say."
)
_OF_LANGUAGE_MODEL = (*_OF_TABLE, "flops", "prompt", "thinking", "batch", "speed", "total_speed", "prefill_speed")


def _quantity(flag: str, dimension: quantities.Dimension, name: str, help_: str) -> Callable[..., Any]:
    return click.option(flag, type=Quantity(dimension, name), metavar=name, help=help_)


@click.command()
@click.option("--machine", metavar="NAME", help=f"One of {', '.join(catalogue.MACHINES)}.")
@_quantity("--bandwidth", quantities.BANDWIDTH, "RATE", "Read bandwidth, such as 905GB/s, in place of the machine's.")
@_quantity("--flops", quantities.COMPUTE, "RATE", "Peak, such as 31.8TFLOP/s, in place of the machine's.")
@click.option("--model", metavar="NAME", help=f"One of {', '.join(catalogue.MODELS)}.")
@_quantity("--parameters", quantities.PARAMETERS, "COUNT", "Such as 12B, for a model without a name here.")
@_quantity("--active", quantities.PARAMETERS, "COUNT", "Of these, those that a token uses (mixture of experts).")
@click.option("--format", "weight_format", metavar="NAME", help="Weight format: Q4_0, Q4_K_M, Q8_0, BF16, FP8 ...")
@_quantity("--bits", quantities.BITS, "BITS", "Bits per weight, such as 4.5, in place of a format.")
@_quantity("--weights", quantities.MEMORY, "SIZE", "Weights read per token, such as 7.0GB.")
@_quantity("--kv-per-token", quantities.MEMORY, "SIZE", "KV cache of one token, for a model that is not known here.")
@_quantity("--context", quantities.TOKENS, "TOKENS", "Tokens whose keys and values are read for the next one.")
@_quantity("--prompt", quantities.TOKENS, "TOKENS", "Length of a prompt: its time, at least.")
@_quantity("--thinking", quantities.TOKENS, "TOKENS", "Unspoken tokens: how long they keep the listener waiting.")
@_quantity("--batch", quantities.COUNT, "REQUESTS", "Requests at once.")
@_quantity("--speed", quantities.SPEED, "SPEED", "Measured tokens per second: share of the ceiling, and the rest.")
@_quantity("--total-speed", quantities.SPEED, "SPEED", "Measured, of all requests of the batch together.")
@_quantity("--prefill-speed", quantities.SPEED, "SPEED", "Measured: the arithmetic that it means, and if it can be.")
@_quantity("--chunk", quantities.MILLISECONDS, "MS", "Recogniser: one chunk instead of all.")
@_quantity("--audio", quantities.SECONDS, "SECONDS", "Voice: seconds of sound, 1 by default.")
@_quantity("--diffusion-steps", quantities.COUNT, "STEPS", "Voice: another number than the model's own.")
@_quantity("--fixed", quantities.TIME, "TIME", "Voice: measured fixed time, in place of the published one.")
@_quantity(
    "--patch",
    replace(quantities.TIME, zero=False),
    "TIME",
    "Voice: measured time of a patch with the model's own number of steps.",
)
def predict(**options: Any) -> None:
    """Say what the laws allow a model on a machine, without a run.

    Without a model or without a machine, print the decode ceilings of those that are known. Figures that were measured
    elsewhere (--speed, --total-speed, --prefill-speed) are put beside the laws, and refused when they cannot be.
    """
    try:
        _predict(Given(**options))
    except (UnknownName, UnknownFormat, NotPredictable) as error:
        raise TurnscopeError(str(error)) from None


def _predict(given: Given) -> None:
    model = None if given.model is None else catalogue.model(given.model)
    if isinstance(model, Voice):
        _tell_unused(given, _OF_VOICE, model.what)
        _print(given, model.what, of_voice(model, given.rates, given.speaking), model.source)
    elif isinstance(model, Recogniser):
        _tell_unused(given, _OF_RECOGNISER, model.what)
        answers = of_recogniser(model, given.rates, given.chunk, given.weight_format or model.format)
        _print(given, model.what, answers, model.source)
    elif given.has_language_model and given.rates.bytes_per_s is not None:
        _tell_unused(given, _OF_LANGUAGE_MODEL, "a language model")
        if model is None:
            name, writing = given.described()
        else:
            name, writing = f"{model.what} {given.format_of(model)}", given.named(model)
        answers = of_language_model(writing, given.rates, given.load)
        _print(given, name, answers, "as given" if model is None else model.source)
    else:
        _print_table(given, model)


def _print(given: Given, name: str, answers: Iterable[Answer], source: str) -> None:
    title = f"{name}, {given.place}" if given.place else name
    sources = [f"{name}: {source}."]
    if given.machine is not None and given.bandwidth is None:
        machine = catalogue.machine(given.machine)
        sources.append(f"{machine.what}: {machine.source}.")
    print_answers(_console(), title, list(answers), sources)


def _print_table(given: Given, model: LanguageModel | None) -> None:
    """Of those models and machines that were named, or else of all."""
    _tell_unused(given, _OF_TABLE, "the table of ceilings")
    if model is not None:
        columns = {model.what: given.named(model)}
    elif given.has_language_model:
        columns = dict([given.described()])
    else:
        models = catalogue.language_models()
        columns = {models[name].what: given.named(models[name], _TABLE_FORMAT) for name in _TABLE_MODELS}
    if given.rates.bytes_per_s is not None:
        rows = {given.machine or "as given": given.rates.bytes_per_s}
    else:
        rows = {name: machine.bytes_per_s for name, machine in catalogue.MACHINES.items()}
    read = {name: each.weights + each.kv for name, each in columns.items()}
    bits = next(iter(columns.values())).bits
    stored = "" if bits is None else f", {bits:.3g} bits per weight"
    print_ceilings(_console(), f"Decode, at most, tokens per second{stored}", rows, read, [_ADVICE])


def _tell_unused(given: Given, used: tuple[str, ...], what: str) -> None:
    if unused := given.unused(used):
        consoles.note(consoles.notes(), f"Without effect on {what}: {', '.join(unused)}.")


def _console() -> Console:
    console = consoles.output()
    console.width = max(console.width, _LEAST_WIDTH)
    return console
