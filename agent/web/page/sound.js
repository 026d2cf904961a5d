// The microphone, and the voice through the loudspeaker.

import { insecure, microphoneProblem } from "./sentences.js";

export class Sound {
  #context = null;
  #source = null;
  #voice = null;
  #onset = null;
  #meters = {};

  // onset(performanceMs, estimated): the moment at which a sound after silence leaves the loudspeaker.
  // lost(): the microphone was unplugged.
  constructor(onset, lost) {
    this.onset = onset;
    this.lost = lost;
    this.microphone = null;
  }

  // Call it from a click: browsers let sound begin only then. Throws a Problem.
  async open() {
    if (!navigator.mediaDevices) throw insecure();
    this.#context = new AudioContext({ latencyHint: "interactive" });
    await this.#context.audioWorklet.addModule(new URL("heard-worklet.js", import.meta.url));
    try {
      this.microphone = await navigator.mediaDevices.getUserMedia({
        audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
      });
    } catch (error) {
      throw microphoneProblem(error);
    }
    if (!this.#context) return this.close(); // hung up while the browser still asked
    for (const track of this.microphone.getAudioTracks()) track.onended = () => this.lost();
    await this.#context.resume();
    this.#meters.user = this.#meter();
    this.#context.createMediaStreamSource(this.microphone).connect(this.#meters.user);
    this.#meters.agent = this.#meter();
    this.#onset = new AudioWorkletNode(this.#context, "onset", { numberOfInputs: 1, numberOfOutputs: 1 });
    this.#onset.port.onmessage = ({ data }) => this.#report(data.atS);
    this.#onset.connect(this.#context.destination); // silent itself: a node that leads nowhere is not run
  }

  // Play this stream, in place of the one before.
  play(stream) {
    this.#source?.disconnect();
    this.#voice ??= new Audio();
    this.#voice.muted = true; // Chromium hands a remote track to the context only when an element has it, too
    this.#voice.srcObject = stream;
    this.#voice.play().catch(() => this.#context?.resume());
    this.#source = this.#context.createMediaStreamSource(stream);
    for (const node of [this.#context.destination, this.#meters.agent, this.#onset]) this.#source.connect(node);
  }

  // 0 (silence) to 1 (loud), of "user" or "agent".
  level(who) {
    const meter = this.#meters[who];
    if (!meter) return 0;
    const samples = new Float32Array(meter.fftSize);
    meter.getFloatTimeDomainData(samples);
    const square = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
    return Math.min(1, Math.max(0, 1 + Math.log10(square + 1e-9) / 5));
  }

  close() {
    this.microphone?.getTracks().forEach((track) => track.stop());
    if (this.#voice) this.#voice.srcObject = null;
    this.#context?.close();
    this.#context = this.#source = this.microphone = null;
    this.#meters = {};
  }

  #meter() {
    const meter = this.#context.createAnalyser();
    meter.fftSize = 1024;
    return meter;
  }

  #report(atS) {
    const context = this.#context;
    if (!context) return;
    const out = context.getOutputTimestamp?.();
    if (out?.performanceTime > 0) this.onset(out.performanceTime + (atS - out.contextTime) * 1000, false);
    else this.onset(performance.now() + (atS - context.currentTime + (context.outputLatency || 0)) * 1000, true);
  }
}
