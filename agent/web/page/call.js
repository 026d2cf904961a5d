// A call: the microphone, a line to the server, and another line when that one is lost.

import { ServerClock } from "./clock.js";
import { Heard } from "./heard.js";
import { Line } from "./line.js";
import { microphoneLost, Problem, serverGone } from "./sentences.js";
import { Sound } from "./sound.js";

const PAUSES_MS = [0, 500, 1000, 2000, 4000, 8000, 8000, 8000]; // before each attempt to reconnect
const SESSION = "turnscope.session";

export class Call {
  #clock = new ServerClock();
  #heard = new Heard(this.#clock, (report) => this.#reportHeard(report));
  #line = null;
  #before = null; // the stream's delays when the reply was still to come
  #over = false;

  // listener: { message(object), reconnecting(), ended(problem) }
  constructor(listener) {
    this.listener = listener;
    const onset = (pageMs, estimated) => this.#heard.onset(pageMs, estimated);
    this.sound = new Sound(onset, () => this.#end(microphoneLost()));
  }

  async start() {
    try {
      await this.sound.open();
      if (!this.#over) await this.#connect();
    } catch (error) {
      this.#end(error);
    }
  }

  toggle(name, value) {
    this.#line?.send({ type: "toggle", name, value });
  }

  hangUp() {
    this.#line?.send({ type: "bye" });
    this.bye();
    sessionStorage.removeItem(SESSION);
    this.#close();
  }

  // Tells the server that this page goes; the conversation can still be taken up again.
  bye() {
    const session = sessionStorage.getItem(SESSION);
    if (session && this.#line) navigator.sendBeacon("/bye", JSON.stringify({ session }));
  }

  async #connect() {
    const before = this.#line;
    const line = new Line({
      message: (message) => this.#receive(message),
      voice: (stream) => this.sound.play(stream),
      pong: (sentMs, receivedMs, serverMs) => this.#clock.observe(sentMs, receivedMs, serverMs),
      gone: () => this.#reconnect(),
    });
    const session = await line.open(this.sound.microphone, sessionStorage.getItem(SESSION));
    before?.close();
    if (this.#over) return line.close();
    sessionStorage.setItem(SESSION, session);
    this.#line = line;
  }

  async #reconnect() {
    this.listener.reconnecting();
    let last = serverGone();
    for (const pauseMs of PAUSES_MS) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      if (this.#over) return;
      try {
        return await this.#connect();
      } catch (error) {
        if (!(error instanceof Problem) || !error.again) return this.#end(error);
        last = error;
      }
    }
    this.#end(last);
  }

  async #receive(message) {
    if (message.type === "audible") this.#heard.audible(message.turn, message.at_ms);
    if (message.type === "state" && message.phase === "ended") {
      return this.#end(new Problem("The call has ended", message.reason ?? "", { state: "ended" }));
    }
    if (message.type === "state" && message.phase === "full") {
      return this.#end(new Problem("All lines are taken", message.reason ?? "", { state: "refused" }));
    }
    this.listener.message(message);
    if (message.type === "transcript" && message.final) this.#before = (await this.#line?.delays())?.reading ?? null;
  }

  async #reportHeard(report) {
    const delays = await this.#line?.delays(this.#before);
    const split = delays ? { jitter_buffer_ms: delays.bufferMs, output_ms: delays.outputMs } : {};
    this.#line?.send({ type: "heard", ...report, ...split });
  }

  #end(problem) {
    if (this.#over) return;
    this.#close();
    const known = problem instanceof Problem;
    this.listener.ended(known ? problem : new Problem("Something is wrong in this page", `Reload it. (${problem})`));
  }

  #close() {
    this.#over = true;
    this.#line?.close();
    this.sound.close();
  }
}
