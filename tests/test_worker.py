"""The thread worker: order, hand-over, cancellation, failures, and a bounded close."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

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
