"""Planted causes of a miss are named with their figures; a law that holds needs none."""

from collections.abc import Sequence

from profiling.extrapolation import Asked, Point, law_of, predicted
from profiling.extrapolation_reasons import Compared, reasons

CACHE = 32_000_000


def points(small_bytes: float = 1e8) -> list[Point]:
    return [Point({"work": n}, (0.1 + 2.0 * n,) * 6, small_bytes * n) for n in (1.0, 2.0)]


def compared(
    times_s: Sequence[float], *, small: Sequence[Point] = (), slower: float = 1.0, weight_bytes: float = 2.4e9
) -> Compared:
    law = law_of(small or points())
    assert law is not None
    asked = [Asked(law, {"work": 24.0}, slower=slower, weight_bytes=weight_bytes)]
    interval = predicted(asked)
    assert interval is not None
    return Compared(times_s, interval, asked)


LAW_S = 0.1 + 2.0 * 24


def test_a_law_that_holds_needs_no_reason() -> None:
    one = compared((LAW_S * 1.1,))
    assert one.holds and reasons(one, CACHE) == ()


def test_another_rate_is_told_with_both_figures() -> None:
    assert reasons(compared((0.1 + 3.0 * 24,) * 6), CACHE) == (
        "beyond the fixed part it took 3.00 times what the ceilings allow, the small models 2.00",
    )


def test_a_machine_that_drifted() -> None:
    found = reasons(compared((LAW_S * 2,), slower=1.3), CACHE)
    assert "the machine became 30 % slower between the two by its ceilings, which the law allows for" in found
    assert not any("machine became" in one for one in reasons(compared((LAW_S * 2,), slower=1.02), CACHE))


def test_measurements_that_are_spread() -> None:
    found = reasons(compared((LAW_S, LAW_S * 1.5, LAW_S * 2)), CACHE)
    assert "the measurements are spread by ± 33 %" in found


def test_a_law_that_is_not_known_well() -> None:
    loose = [Point({"work": n}, (2 * n, 3 * n, 1 * n, 2.5 * n)) for n in (1.0, 2.0)]
    assert any(one.startswith("the law is known to ± ") for one in reasons(compared((200.0,), small=loose), CACHE))


def test_small_models_that_fit_the_cache() -> None:
    found = reasons(compared((LAW_S * 2,), small=points(1e6)), CACHE)
    expected = "the small models' 2 MB fit the last-level cache of 32 MB, the full size's 2400 MB do not"
    assert expected in found
    assert not any("cache" in one for one in reasons(compared((LAW_S * 2,)), CACHE))
    assert not any(
        "cache" in one for one in reasons(compared((LAW_S * 2,), small=points(1e6), weight_bytes=5e6), CACHE)
    )
    assert not any("cache" in one for one in reasons(compared((LAW_S * 2,), small=points(1e6)), 0))


def test_kernels_that_change_with_size() -> None:
    bent = [Point({"work": n}, (t,) * 6, 1e8) for n, t in ((1.0, 1.0), (2.0, 2.0), (3.0, 6.0))]
    found = reasons(compared((300.0,), small=bent), CACHE)
    assert any(one.startswith("the small models themselves lie up to ") for one in found)


def test_the_part_that_is_missing_most_of_it() -> None:
    whole, part, other = compared((LAW_S + 20,)), compared((LAW_S + 19,)), compared((LAW_S + 1,))
    found = reasons(whole, CACHE, {"decoder": other, "encoder": part})
    assert found[0] == "encoder is +19.00 s of the +20.00 s"
    assert not any("of the +" in one for one in reasons(whole, CACHE, {"decoder": other}))


def test_what_held_alone_was_slowed_by_what_ran_beside_it() -> None:
    found = reasons(compared((LAW_S * 1.5,)), CACHE, alone=compared((LAW_S,)))
    assert found[0] == "alone at full size it held (1.00): beside the rest of the turn it is 50 % slower"
    assert not any("alone" in one for one in reasons(compared((LAW_S * 1.5,)), CACHE, alone=compared((LAW_S * 1.5,))))


def test_an_operation_of_several_units_is_held_against_the_largest_small_model() -> None:
    sizes = [({"layers": n, "head": h}, 2.0 * n + 2.0 * h) for n, h in ((2.0, 1.0), (3.0, 1.0), (2.0, 2.0))]
    law = law_of([Point(units, (s,) * 6, 1e8 * s, s / 2) for units, s in sizes])
    assert law is not None
    asked = [Asked(law, {"layers": 48.0, "head": 8.0}, ceiling_s=56.0)]
    interval = predicted(asked)
    assert interval is not None
    found = reasons(Compared((56.0 * 1.5,) * 6, interval, asked), CACHE)
    assert found == ("it took 1.50 times what the ceilings allow, the largest small model 2.00",)
