// The conversation: what was said, and under each turn its wait.

import { element } from "./dom.js";
import { chart, signed, strip, table } from "./waterfall.js";

const WORTH_TELLING_S = 0.001;
const MOST_PARTS = 3;
const DOCK_PX = 140; // of the window's height, that the call's own line covers

export class Turns {
  #turns = new Map(); // number -> Turn
  #longest_s = 0;

  // list: an <ol>; announce(text) is for screen readers.
  constructor(list, announce) {
    this.list = list;
    this.announce = announce;
  }

  get empty() {
    return this.list.childElementCount === 0;
  }

  clear() {
    this.#turns.clear();
    this.#longest_s = 0;
    this.list.replaceChildren();
  }

  // What was said before this page knew of it.
  recall(said) {
    for (const { who, text } of said) {
      this.list.append(element("li", { class: "turn past" }, speech(who === "user" ? "you" : "agent", text)));
    }
  }

  note(text) {
    this.list.append(element("li", { class: "note" }, text));
    this.announce(text);
    this.#follow();
  }

  transcript({ turn, text, final }) {
    this.#of(turn).userSaid(text, final);
    this.#follow();
  }

  says({ turn, text }) {
    this.#of(turn).agentSays(text);
    this.#follow();
  }

  shown(message) {
    const turn = this.#of(message.turn);
    const first = turn.shown === null;
    turn.show(message, this.#before(message.turn));
    if (message.latency_s !== null && first) {
      for (const other of this.#turns.values()) if (other !== turn) other.fold();
    }
    if (message.latency_s > this.#longest_s) this.#longest_s = message.latency_s;
    for (const each of this.#turns.values()) each.scale(this.#longest_s);
    if (message.complete && !turn.announced) {
      turn.announced = true;
      this.announce(`${lineOf(message)} ${turn.effect}`);
    }
    this.#follow();
  }

  // The settings of the last turn before this one that had a latency.
  #before(number) {
    const earlier = [...this.#turns].filter(([n, turn]) => n < number && turn.shown && turn.shown.latency_s !== null);
    return earlier.sort(([a], [b]) => b - a)[0]?.[1].shown.settings ?? null;
  }

  #of(number) {
    let turn = this.#turns.get(number);
    if (!turn) {
      turn = new Turn(number);
      this.#turns.set(number, turn);
      this.list.append(turn.item);
    }
    return turn;
  }

  // Keeps the newest in view, unless the reader has gone back.
  #follow() {
    const room = document.scrollingElement;
    if (room.scrollHeight - room.scrollTop - room.clientHeight < room.clientHeight) {
      const newest = this.list.lastElementChild;
      const tooTall = newest.getBoundingClientRect().height > room.clientHeight - DOCK_PX;
      newest.scrollIntoView({ block: tooTall ? "start" : "end" });
    }
  }
}

class Turn {
  #reply = "";
  #detail = null;
  #byHand = false;
  #strip = null;

  constructor(number) {
    this.item = element("li", { class: "turn", "data-turn": `${number}` });
    this.shown = null;
    this.announced = false;
    this.effect = "";
    this.you = this.agent = this.wait = null;
  }

  userSaid(text, final) {
    if (!this.you) this.item.prepend((this.you = speech("you", "")));
    this.you.lastChild.textContent = text;
    this.you.toggleAttribute("data-partial", !final);
  }

  agentSays(text) {
    this.#reply += text;
    this.#fillReply(this.#reply.trim(), "");
  }

  show(message, settingsBefore) {
    this.shown = message;
    if (message.complete) this.#markHeard(message.heard_text);
    this.effect = effectOf(message, settingsBefore);
    const wait = element("figure", { class: "wait", "data-complete": `${message.complete}` });
    wait.append(element("figcaption", { class: "line" }, ...emphasised(lineOf(message))));
    if (this.effect) wait.append(element("p", { class: "effect" }, this.effect));
    if (message.rows.length > 0 && message.latency_s !== null) {
      this.#strip = strip(message);
      wait.append(this.#strip, this.#details(message));
    }
    if (this.wait) this.wait.replaceWith(wait);
    else this.item.append(wait);
    this.wait = wait;
  }

  // The strip's length is this turn's share of the longest.
  scale(longest_s) {
    if (this.#strip) this.#strip.style.width = `${(100 * this.shown.latency_s) / longest_s}%`;
  }

  fold() {
    if (this.#detail && !this.#byHand) this.#detail.open = false;
  }

  #details(message) {
    const before = this.#detail;
    const numbersWereOpen = before?.querySelector(".numbers")?.open ?? false;
    const open = before ? before.open : true;
    const inNumbers = element("summary", {}, "In numbers");
    const numbers = element("details", { class: "numbers", open: numbersWereOpen }, inNumbers, table(message));
    const summary = element("summary", {}, "Where the time went");
    summary.addEventListener("click", () => (this.#byHand = true));
    this.#detail = element("details", { class: "detail", open }, summary, chart(message), numbers);
    return this.#detail;
  }

  #markHeard(heard) {
    const [said, count] = [this.#reply.trim().split(/\s+/), heard.trim() ? heard.trim().split(/\s+/).length : 0];
    if (!this.#reply.trim()) {
      if (heard.trim()) this.#fillReply(heard.trim(), "");
      return;
    }
    this.#fillReply(said.slice(0, count).join(" "), said.slice(count).join(" "));
  }

  #fillReply(heard, unheard) {
    if (!this.agent) {
      this.agent = speech("agent", "");
      if (this.wait) this.wait.before(this.agent);
      else this.item.append(this.agent);
    }
    this.agent.lastElementChild.replaceChildren(heard);
    if (unheard) {
      const gone = element("s", { class: "unheard" }, unheard);
      this.agent.lastElementChild.append(heard ? " " : "", gone, element("span", { class: "aside" }, " not heard"));
    }
  }
}

function speech(who, text) {
  const name = who === "you" ? "You: " : "Turnscope: ";
  const words = element("span", { class: "words" }, text);
  return element("p", { class: `said ${who}` }, element("span", { class: "who" }, name), words);
}

function lineOf({ latency_s, breakdown, ended }) {
  return latency_s === null ? breakdown || ended : `You waited ${breakdown}`;
}

// "You waited 640 ms: ..." with the figure in bold.
function emphasised(line) {
  const found = /[\d,.]+ (?:ms|s)\b/.exec(line);
  if (!found) return [line];
  const after = found.index + found[0].length;
  return [line.slice(0, found.index), element("strong", {}, found[0]), line.slice(after)];
}

// What a change of settings cost: "thinking 0 → 32: +410 ms", and the parts that changed most.
function effectOf(message, before) {
  const whole = message.deltas.find((delta) => delta.name === "latency");
  if (!whole || whole.change_s === null || message.changed.length === 0) return "";
  const what = message.changed.map((label) => {
    const value = message.settings[label];
    return before && before[label] !== undefined ? `${label} ${before[label]} → ${value}` : `${label} ${value}`;
  });
  const parts = message.deltas.filter((delta) => delta !== whole && Math.abs(delta.change_s ?? 0) >= WORTH_TELLING_S);
  const most = parts.sort((a, b) => Math.abs(b.change_s) - Math.abs(a.change_s)).slice(0, MOST_PARTS);
  const where = most.map((part) => `${part.label} ${signed(part.change_s)}`).join(", ");
  return `${what.join(", ")}: ${signed(whole.change_s)} ms${where && ` (${where})`}`;
}
