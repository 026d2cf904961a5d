// Finds where sound begins after silence in what the loudspeaker is given, on the audio clock.

const LEVEL = 10 ** (-50 / 20); // the definition of first audio: 10 ms at or above -50 dBFS
const BLOCK_S = 0.01;
const SILENCE_S = 0.2;

class Onset extends AudioWorkletProcessor {
  #square = 0;
  #filled = 0;
  #began = 0;
  #quietS = Infinity;

  process([input]) {
    const samples = input[0];
    const size = Math.round(BLOCK_S * sampleRate);
    for (let i = 0; i < (samples ? samples.length : 0); i++) {
      if (this.#filled === 0) this.#began = currentFrame + i;
      this.#square += samples[i] * samples[i];
      if (++this.#filled === size) this.#judge(Math.sqrt(this.#square / size));
    }
    return true;
  }

  #judge(level) {
    if (level < LEVEL) this.#quietS += BLOCK_S;
    else {
      if (this.#quietS >= SILENCE_S) this.port.postMessage({ atS: this.#began / sampleRate });
      this.#quietS = 0;
    }
    this.#square = this.#filled = 0;
  }
}

registerProcessor("onset", Onset);
