// The server's clock as seen from this page.

const WINDOW_MS = 10_000;
const DRIFT = 100e-6; // two quartz clocks part by less

// Each pong says: at the middle of its round trip, give or take half of it, the server's clock stood there. The
// shortest round trip of the last ten seconds is the one believed.
export class ServerClock {
  #readings = [];

  // sentMs, receivedMs: performance.now(); serverMs: the server's monotonic clock in between.
  observe(sentMs, receivedMs, serverMs) {
    const roundTripMs = receivedMs - sentMs;
    const offsetMs = serverMs - (sentMs + receivedMs) / 2;
    this.#readings = this.#readings.filter((r) => receivedMs - r.atMs < WINDOW_MS && receivedMs >= r.atMs);
    this.#readings.push({ atMs: receivedMs, roundTripMs, offsetMs });
  }

  // { offsetMs, errorMs } at a moment of performance.now(), or null before the first pong.
  at(nowMs) {
    if (this.#readings.length === 0) return null;
    const errorOf = (r) => r.roundTripMs / 2 + Math.abs(nowMs - r.atMs) * DRIFT;
    const best = this.#readings.reduce((a, b) => (errorOf(b) < errorOf(a) ? b : a));
    return { offsetMs: best.offsetMs, errorMs: errorOf(best) };
  }

  forget() {
    this.#readings = [];
  }
}
