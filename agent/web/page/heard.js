// Joins the moment at which a sound is heard to the turn whose reply it is.

const EARLY_MS = 30; // a sound cannot be heard before it left, but for the clocks' error
const LATE_MS = 5000;

export class Heard {
  #turn = null; // { turn, atMs }: audible, and not yet heard
  #onset = null; // { pageMs, estimated }: heard, and of no turn yet

  // clock: ServerClock; report({ turn, page_ms, offset_ms, error_ms, estimated })
  constructor(clock, report) {
    this.clock = clock;
    this.report = report;
  }

  audible(turn, atMs) {
    this.#turn = { turn, atMs };
    this.#join();
  }

  onset(pageMs, estimated) {
    this.#onset = { pageMs, estimated };
    this.#join();
  }

  #join() {
    if (!this.#turn || !this.#onset) return;
    const { pageMs, estimated } = this.#onset;
    const clock = this.clock.at(performance.now());
    const afterMs = clock && pageMs + clock.offsetMs - this.#turn.atMs;
    if (clock && afterMs >= -EARLY_MS - clock.errorMs && afterMs < LATE_MS) {
      const [offset_ms, error_ms] = [clock.offsetMs, clock.errorMs];
      this.report({ turn: this.#turn.turn, page_ms: pageMs, offset_ms, error_ms, estimated });
      this.#turn = null;
    }
    this.#onset = null;
  }
}
