"""What a test adds to a page: words into its microphone, and ears for what arrives there."""

import base64

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

from agent.audio.resample import resample

# The page's microphone is Chromium's, which plays a WAV; `speak` adds another to it. What comes over the line is kept.
ADDED = """
window.peers = []; window.blocks = []; window.drawnAt = {}; window.audibleAt = {};
const open = MediaDevices.prototype.getUserMedia;
MediaDevices.prototype.getUserMedia = async function (asked) {
  const context = new AudioContext({ sampleRate: 48000 });
  const both = context.createMediaStreamDestination();
  context.createMediaStreamSource(await open.call(this, asked)).connect(both);
  window.speak = (text) => {
    const samples = new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
    const buffer = new AudioBuffer({ length: samples.length, sampleRate: 16000 });
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(both);
    source.start();
  };
  return both.stream;
};
async function keep(track) {
  const reader = new MediaStreamTrackProcessor({ track }).readable.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const block = new Float32Array(value.numberOfFrames);
    value.copyTo(block, { planeIndex: 0, format: "f32-planar" });
    blocks.push(block);
    window.rate = value.sampleRate;
    value.close();
  }
}
window.RTCPeerConnection = class extends RTCPeerConnection {
  constructor(...given) {
    super(...given);
    peers.push(this);
    this.addEventListener("track", ({ track }) => keep(track.clone()));
  }
  createDataChannel(...given) {
    const channel = super.createDataChannel(...given);
    channel.addEventListener("message", ({ data }) => {
      const message = JSON.parse(data);
      if (message.type === "audible") audibleAt[message.turn] ??= performance.now();
    });
    return channel;
  }
};
new MutationObserver(() => {
  for (const wait of document.querySelectorAll("[data-complete='false']:has(.chart)")) {
    drawnAt[wait.parentElement.dataset.turn] ??= performance.now();
  }
}).observe(document, { subtree: true, childList: true });
"""
SOUND = """() => {
  const all = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
  let at = 0;
  for (const block of blocks) { all.set(block, at); at += block.length; }
  const bytes = new Uint8Array(all.buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return [btoa(text), rate];
}"""


def speak(page: Page, samples: NDArray[np.float32]) -> None:
    """Sound at 16 kHz, from now on."""
    page.evaluate("text => speak(text)", base64.b64encode(samples.tobytes()).decode())


def arrived(page: Page) -> NDArray[np.float32]:
    """All that came over the line so far, at 16 kHz."""
    sound, rate_hz = page.evaluate(SOUND)
    return resample(np.frombuffer(base64.b64decode(sound), np.float32), rate_hz, 16_000)
