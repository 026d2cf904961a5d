"""The thread worker: order, hand-over, cancellation, failures, hung engines, and a bounded close."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator

import pytest

from agent.errors import TurnscopeError
from agent.watch import Bound
from agent.worker import ShouldStop, ThreadWorker, once
from profiling.trace.clock import SystemClock


def counting(limit: int, gate: threading.Event | None = None) -> "object":
    def run(should_stop: ShouldStop) -> Iterator[int]:
        for number in range(limit):
            if should_stop():
                return
            yield number
            if gate:
                gate.wait(5)

    return run


async def worker() -> ThreadWorker:
    return ThreadWorker("test", SystemClock())


def test_items_come_in_order_and_jobs_run_one_after_another() -> None:
    async def main() -> None:
        runner = await worker()
        threads: set[int] = set()

        def note(should_stop: ShouldStop) -> int:
            threads.add(threading.get_ident())
            return len(threads)

        first = runner.submit("first", counting(100))
        second = runner.submit("second", once(note))
        assert (first.waited_for, second.waited_for) == (None, "first")
        assert [item async for item in first] == list(range(100))
        assert await second.result() == 1
        assert threads and threading.get_ident() not in threads
        assert await runner.close()

    asyncio.run(main())


def test_a_cancelled_job_stops_at_its_next_check_and_the_next_job_runs() -> None:
    async def main() -> None:
        runner, gate = await worker(), threading.Event()
        job = runner.submit("endless", counting(10**9, gate))
        seen = []
        async for item in job:
            seen.append(item)
            job.cancel()
            gate.set()
        assert seen == [0]
        assert await runner.submit("next", once(lambda _: "ran")).result() == "ran"
        assert await runner.close()

    asyncio.run(main())


def test_a_job_cancelled_while_it_waits_never_runs() -> None:
    async def main() -> None:
        runner, gate = await worker(), threading.Event()
        running = runner.submit("running", counting(1, gate))
        waiting = runner.submit("waiting", once(lambda _: pytest.fail("it ran")))
        waiting.cancel()
        gate.set()
        assert [item async for item in running] == [0]
        with pytest.raises(RuntimeError, match="waiting was stopped"):
            await waiting.result()
        assert await runner.close()

    asyncio.run(main())


def test_a_failure_is_raised_where_the_items_are_awaited_and_the_worker_lives_on() -> None:
    def fails(should_stop: ShouldStop) -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    async def main() -> None:
        runner = await worker()
        seen = []
        with pytest.raises(ValueError, match="broken"):
            async for item in runner.submit("fails", fails):
                seen.append(item)
        assert seen == [1]
        assert await runner.submit("next", once(lambda _: 2)).result() == 2
        assert await runner.close()

    asyncio.run(main())


def test_closing_a_worker_whose_engine_hangs_is_bounded() -> None:
    async def main() -> None:
        runner, gate, started = await worker(), threading.Event(), threading.Event()
        runner.submit("hangs", once(lambda _: started.set() or gate.wait(20)))
        started.wait(5)
        assert not await runner.close(timeout_s=0.05)
        gate.set()
        assert await runner.close(timeout_s=5)

    asyncio.run(main())


def test_what_is_run_before_there_is_a_loop_runs_on_the_thread_of_the_jobs() -> None:
    runner = ThreadWorker("test", SystemClock())
    before = runner.run_now(threading.get_ident)

    async def main() -> None:
        assert await runner.submit("job", once(lambda _: threading.get_ident())).result() == before
        assert runner.run_now(threading.get_ident) == before
        assert await runner.close()

    assert before != threading.get_ident()
    asyncio.run(main())


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)])
def test_what_fails_before_there_is_a_loop_is_raised_to_the_caller_and_the_worker_lives_on(
    error: BaseException,
) -> None:
    def fails() -> None:
        raise error

    runner = ThreadWorker("test", SystemClock())
    with pytest.raises(type(error)) as raised:
        runner.run_now(fails)
    assert raised.value is error and runner.run_now(lambda: 2) == 2
    runner.stop()


def test_a_stopped_worker_ends_without_being_waited_for() -> None:
    runner = ThreadWorker("test", SystemClock())
    thread = runner.run_now(threading.current_thread)
    runner.stop()
    thread.join(5)
    assert not thread.is_alive()


SOON = Bound(limit_s=0.1, stop_s=0.05, name="the voice", setting="limits.tts_s")


class Hang:
    """Operations that look at nothing until they are let go; then they give one item more."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.threads: list[threading.Thread] = []

    def __call__(self, should_stop: ShouldStop) -> Iterator[str]:
        yield "before"
        self.threads.append(threading.current_thread())
        self.release.wait(30)
        yield "late"
        yield "never"

    def let_go(self) -> None:
        self.release.set()
        for thread in self.threads:
            thread.join(5)


def with_hang(main: Callable[[Hang], Coroutine[None, None, None]]) -> Hang:
    hang = Hang()
    try:
        asyncio.run(main(hang))
    finally:
        hang.let_go()
    return hang


def test_an_operation_that_gives_nothing_fails_within_its_bound_and_a_new_thread_goes_on() -> None:
    async def main(hang: Hang) -> None:
        runner = ThreadWorker("test", SystemClock(), SOON)
        job, seen = runner.submit("hangs", hang), []
        waiting = runner.submit("waits", once(lambda _: threading.current_thread()))
        with pytest.raises(TurnscopeError, match=r"^The voice gave nothing for 0\.1 s.*raise limits\.tts_s"):
            async for item in job:
                seen.append(item)
        assert seen == ["before"] and job.cancelled
        thread = await waiting.result()
        assert thread is not hang.threads[0] and thread.daemon
        after = runner.submit("after", counting(3))
        assert after.waited_for is None and [item async for item in after] == [0, 1, 2]
        hang.let_go()
        await asyncio.sleep(0)
        assert not hang.threads[0].is_alive() and runner.run_now(threading.current_thread) is thread
        assert [item async for item in runner.submit("next", counting(2))] == [0, 1]
        assert await runner.close()

    with_hang(main)


def test_what_an_abandoned_operation_still_gives_is_dropped() -> None:
    async def main(hang: Hang) -> None:
        runner = ThreadWorker("test", SystemClock(), SOON)
        job, seen = runner.submit("hangs", hang), []
        async for item in job:
            seen.append(item)
            job.cancel()
            with pytest.raises(TurnscopeError, match=r"told to stop and did not within 0\.05 s"):
                await job.ended()
            hang.let_go()
            await asyncio.sleep(0)
            break
        with pytest.raises(TurnscopeError, match="told to stop"):
            seen += [item async for item in job]
        assert seen == ["before"]
        assert await runner.close()

    with_hang(main)


def test_an_engine_that_is_slow_but_gives_items_is_not_taken_for_hung() -> None:
    """Nor is one that waits for its turn: both take longer than the bound until they have ended."""

    async def main() -> None:
        runner, pause = ThreadWorker("test", SystemClock(), Bound(limit_s=1.0, stop_s=0.05)), threading.Event()

        def slow(should_stop: ShouldStop) -> Iterator[int]:
            for number in range(8):
                pause.wait(0.1)
                yield number

        first, second = runner.submit("slow", slow), runner.submit("slow", slow)
        assert [item async for item in first] == [item async for item in second] == list(range(8))
        assert await runner.close()

    asyncio.run(main())


def test_where_two_calls_at_once_are_not_possible_all_fails_at_once_until_the_hung_one_returns() -> None:
    async def main(hang: Hang) -> None:
        runner = ThreadWorker("test", SystemClock(), Bound(limit_s=0.1, stop_s=0.05, reentrant=False))
        job = runner.submit("hangs", hang)
        waiting = runner.submit("waits", once(lambda _: "ran"))
        with pytest.raises(TurnscopeError, match="gave nothing"):
            await job.ended()
        for held in (waiting, runner.submit("later", once(lambda _: "ran"))):
            with pytest.raises(TurnscopeError, match="stuck in a call that does not end"):
                await held.result()
        late = runner.submit("later", once(lambda _: "ran"))
        assert late.done and late.waited_for == "hangs"
        hang.release.set()
        runner.run_now(lambda: None)
        await asyncio.sleep(0)
        assert await runner.submit("next", once(lambda _: threading.current_thread())).result() is hang.threads[0]
        assert await runner.close()

    with_hang(main)


def test_one_that_does_not_stop_at_once_is_waited_for_where_nothing_can_run_in_its_place() -> None:
    async def main(hang: Hang) -> None:
        runner = ThreadWorker("test", SystemClock(), Bound(limit_s=20, stop_s=0.02, reentrant=False))
        job = runner.submit("slow", hang)
        waiting = runner.submit("waits", once(lambda _: "ran"))
        async for _ in job:
            job.cancel()
            await asyncio.sleep(0.1)
            assert not job.done and not waiting.done
            hang.release.set()
            break
        assert await waiting.result() == "ran"
        assert await runner.close()

    with_hang(main)


def test_ten_hangs_in_a_row_leave_the_hung_threads_and_no_more() -> None:
    before = set(threading.enumerate())

    async def main(hang: Hang) -> None:
        runner = ThreadWorker("test", SystemClock(), Bound(limit_s=0.02, stop_s=0.01))
        for _ in range(10):
            with pytest.raises(TurnscopeError, match="gave nothing"):
                await runner.submit("hangs", hang).ended()
            assert await runner.submit("next", once(lambda _: "ran")).result() == "ran"
        left = set(threading.enumerate()) - before
        assert len(left) == 11 and left > set(hang.threads) and all(thread.daemon for thread in left)
        assert await runner.close()
        assert set(threading.enumerate()) - before == set(hang.threads)

    with_hang(main)
    assert set(threading.enumerate()) == before


def test_the_process_ends_although_engines_hang() -> None:
    """In Python, and in a system call."""
    program = """
import asyncio, os, threading
from agent.watch import Bound
from agent.worker import ThreadWorker, once
from profiling.trace.clock import SystemClock

async def main():
    runner = ThreadWorker("test", SystemClock(), Bound(limit_s=0.02, stop_s=0.01))
    pipe = os.pipe()
    for hang in (threading.Event().wait, lambda: os.read(pipe[0], 1)):
        job = runner.submit("hangs", once(lambda _: hang()))
        try:
            await job.result()
        except Exception as error:
            print(error)
    await runner.close(0.1)

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr, ended.stdout.count("gave nothing")) == (0, "", 2)
