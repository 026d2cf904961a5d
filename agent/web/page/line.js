// One WebRTC connection to the server: the microphone up, the voice down, and a channel of messages.

import { noAddress, noConnection, refusal, serverGone } from "./sentences.js";

const GATHER_MS = 2000;
const CONNECT_MS = 8000;
const PING_MS = 200;
const GONE_MS = 1500;

export class Line {
  #peer = new RTCPeerConnection();
  #channel = this.#peer.createDataChannel("turnscope");
  #pings = new Map(); // id -> when it was sent
  #nextId = 0;
  #timer = null;
  #closed = false;

  // listener: { message(object), voice(MediaStream), pong(sentMs, receivedMs, serverMs), gone() }
  constructor(listener) {
    this.listener = listener;
  }

  // Resolves with the session once messages can go; throws a Problem. Closes what it opened when it fails.
  async open(microphone, session) {
    try {
      for (const track of microphone.getAudioTracks()) this.#peer.addTrack(track, microphone);
      this.#peer.ontrack = ({ receiver, streams, track }) => {
        if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = 0;
        this.listener.voice(streams[0] ?? new MediaStream([track]));
      };
      this.#channel.onmessage = ({ data }) => this.#receive(JSON.parse(data));
      const opened = new Promise((resolve) => (this.#channel.onopen = resolve));
      await this.#peer.setLocalDescription(await this.#peer.createOffer());
      await this.#gathered();
      const answer = await this.#ask({ sdp: this.#peer.localDescription.sdp, session });
      await this.#peer.setRemoteDescription({ type: "answer", sdp: answer.sdp });
      await this.#within(CONNECT_MS, opened);
      this.#channel.onclose = () => this.#lose();
      this.#timer = setInterval(() => this.#ping(), PING_MS);
      return answer.session;
    } catch (problem) {
      this.close();
      throw problem;
    }
  }

  send(message) {
    if (this.#channel.readyState === "open") this.#channel.send(JSON.stringify(message));
  }

  // Mean delays since an earlier reading (`since`), in milliseconds; null where the browser does not say.
  async delays(since) {
    const reading = {};
    for (const report of (await this.#peer.getStats()).values()) {
      if (report.type === "inbound-rtp") reading.buffer = [report.jitterBufferDelay, report.jitterBufferEmittedCount];
      if (report.type === "media-playout") reading.output = [report.totalPlayoutDelay, report.totalSamplesCount];
    }
    const bufferMs = meanMs(reading.buffer, since?.buffer);
    return { reading, bufferMs, outputMs: meanMs(reading.output, since?.output) };
  }

  close() {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#channel.onclose = null;
    this.#peer.close();
  }

  async #gathered() {
    const complete = new Promise((resolve) => {
      const look = () => this.#peer.iceGatheringState === "complete" && resolve();
      this.#peer.onicegatheringstatechange = look;
      look();
    });
    await Promise.race([complete, new Promise((resolve) => setTimeout(resolve, GATHER_MS))]);
    if (!/^a=candidate:/m.test(this.#peer.localDescription.sdp)) throw noAddress();
  }

  async #ask(offer) {
    let response;
    try {
      response = await fetch("/offer", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(offer),
        signal: AbortSignal.timeout(CONNECT_MS),
      });
    } catch {
      throw serverGone();
    }
    const said = await response.json().catch(() => null);
    if (!response.ok || !said) throw refusal(response.status, said);
    return said;
  }

  async #within(limitMs, opened) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(noConnection()), limitMs);
      this.#peer.onconnectionstatechange = () => this.#peer.connectionState === "failed" && reject(noConnection());
    });
    await Promise.race([opened, late]).finally(() => clearTimeout(timer));
    this.#peer.onconnectionstatechange = () => this.#peer.connectionState === "failed" && this.#lose();
  }

  #ping() {
    const now = performance.now();
    const [oldest] = this.#pings.values();
    if (oldest !== undefined && now - oldest > GONE_MS) return this.#lose();
    this.#pings.set(this.#nextId, now);
    this.send({ type: "ping", id: this.#nextId++ });
  }

  #receive(message) {
    if (message.type !== "pong") return this.listener.message(message);
    const sentMs = this.#pings.get(message.id);
    for (const id of this.#pings.keys()) if (id <= message.id) this.#pings.delete(id);
    if (sentMs !== undefined) this.listener.pong(sentMs, performance.now(), message.server_ms);
  }

  #lose() {
    if (this.#closed) return;
    clearInterval(this.#timer);
    this.#channel.onclose = this.#channel.onmessage = this.#peer.onconnectionstatechange = null;
    this.#closed = true;
    this.listener.gone();
  }
}

// Of two readings [seconds in all, how many]: the mean of what came between them.
function meanMs(now, before = [0, 0]) {
  return now && now[1] > before[1] ? (1000 * (now[0] - before[0])) / (now[1] - before[1]) : null;
}
