"""The nodes of a token's graph, timed one by one: which kind of operation takes the time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

WEIGHTS, ATTENTION, OTHER = "products with weights", "attention and KV cache", "all other operations"

_PRODUCTS = ("MUL_MAT", "MUL_MAT_ID")
_OF_ATTENTION = ("SOFT_MAX", "FLASH_ATTN_EXT", "SET_ROWS", "CPY", "CONT")
_NOTHING = ("NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE")
_SCORES = "kq"  # what llama.cpp calls its products of queries, keys and values begins with it


@dataclass(frozen=True)
class NodeTimes:
    """Tokens at `kv_bytes` of KV cache: `plain_s` with nothing beside them, `timed_s` with every node timed, `kinds_s`
    the sums over the nodes of a kind, one for each timed token."""

    kv_bytes: float
    nodes: int
    plain_s: Sequence[float]
    timed_s: Sequence[float]
    kinds_s: Mapping[str, Sequence[float]]


def kind_of(operation: str, name: str) -> str | None:
    """By ggml's names of an operation and of its result; None for one that computes nothing."""
    if operation in _NOTHING:
        return None
    if operation in _PRODUCTS:
        return ATTENTION if name.startswith(_SCORES) else WEIGHTS
    return ATTENTION if operation in _OF_ATTENTION else OTHER


def node_sentence(times: NodeTimes) -> str:
    """Shares of the sum over all nodes, and what timing them has cost."""
    sums = {kind: median(each) for kind, each in times.kinds_s.items()}
    total, plain, timed = sum(sums.values()), median(times.plain_s), median(times.timed_s)
    told = ", ".join(f"{each * 1e3:.1f} ms ({100 * each / total:.0f} %) {kind}" for kind, each in sums.items())
    return (
        f"Timed node by node with {times.kv_bytes / (1 << 20):.1f} MiB of KV cache: {told}; this took "
        f"{timed * 1e3:.1f} ms a token, without it {plain * 1e3:.1f}, so that each of {times.nodes} nodes seems up to "
        f"{max(0.0, timed - plain) / times.nodes * 1e6:.1f} µs longer than it is."
    )
