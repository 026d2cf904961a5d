// The page: one button, a conversation, and what can be changed.

import { Call } from "./call.js";
import { byId } from "./dom.js";
import { STATES } from "./sentences.js";
import { showToggles } from "./toggles.js";
import { Turns } from "./turns.js";

const IN_CALL = ["listening", "hearing", "thinking", "speaking"];
const LEVEL_MS = 100;

const turns = new Turns(byId("turns"), (text) => (byId("announcement").textContent = text));
const phases = new Map(); // turn -> "hearing", "thinking", "speaking", until it is complete
let call = null;
let base = "idle"; // the state while nobody speaks
let session = null; // whose turns are shown
let asked = false; // for a toggle, and not answered yet

byId("connect").addEventListener("click", connect);
byId("hang-up").addEventListener("click", () => finish({ state: "ended" }, () => call.hangUp()));
addEventListener("pagehide", () => call?.bye());
setInterval(showLevel, LEVEL_MS);
show("idle");

function connect() {
  phases.clear();
  call = new Call({ message: receive, reconnecting: () => settle("reconnecting"), ended: finish });
  settle("connecting");
  byId("hang-up").focus();
  call.start();
}

function finish(problem, before = () => {}) {
  before();
  call = null;
  phases.clear();
  base = problem.state;
  show(problem.state, problem.title, problem.advice);
  byId("connect").focus();
}

function receive(message) {
  switch (message.type) {
    case "hello":
      return greet(message);
    case "state":
      return settle(message.phase);
    case "toggles":
      byId("settings").hidden = message.items.length === 0;
      asked = false;
      return showToggles(byId("toggles"), message.items, choose);
    case "notice":
      if (asked) byId("toggle-problem").textContent = message.text;
      else turns.note(message.text);
      return;
    case "transcript":
      turns.transcript(message);
      return enter(message.turn, message.final ? "thinking" : "hearing");
    case "says":
      return turns.says(message);
    case "audible":
      return enter(message.turn, "speaking");
    case "turn":
      turns.shown(message);
      setReport(message.report);
      if (message.complete) phases.delete(message.turn);
      return show(current());
  }
}

function choose(name, value) {
  asked = true;
  byId("toggle-problem").textContent = "";
  call?.toggle(name, value);
}

function greet({ session: greeted, said, report, recording }) {
  phases.clear();
  if (greeted !== session) turns.clear();
  session = greeted;
  byId("conversation").hidden = false;
  byId("welcome").hidden = true;
  if (turns.empty) turns.recall(said);
  byId("recording-now").textContent = recording ?? "";
  setReport(report);
}

function setReport(address) {
  byId("report").href = address;
  byId("report").hidden = false;
}

function settle(state) {
  base = state;
  show(current());
}

function enter(turn, phase) {
  phases.set(turn, phase);
  show(current());
}

// The newest turn that is not over decides.
function current() {
  return base === "listening" && phases.size > 0 ? phases.get(Math.max(...phases.keys())) : base;
}

function show(state, title, advice) {
  const [usual, usualAdvice] = STATES[state] ?? ["", ""];
  document.body.dataset.state = state;
  byId("state").setAttribute("aria-live", IN_CALL.includes(state) ? "off" : "polite");
  byId("state").textContent = title ?? usual;
  byId("advice").textContent = advice ?? usualAdvice;
  byId("connect").hidden = call !== null;
  byId("hang-up").hidden = call === null;
  byId("opening").hidden = !turns.empty || call === null;
}

function showLevel() {
  const who = { hearing: "user", listening: "user", speaking: "agent" }[document.body.dataset.state];
  byId("ring").style.transform = `scale(${(who && call ? 0.6 + call.sound.level(who) : 0.6).toFixed(2)})`;
}
