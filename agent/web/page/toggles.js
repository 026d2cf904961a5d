// What can be changed from the next turn on: one group of choices each, with the reason where one cannot be made.

import { element } from "./dom.js";

// place: where they go; choose(name, value) asks the server. What it answers is shown, not what was clicked.
export function showToggles(place, items, choose) {
  const focused = place.contains(document.activeElement) ? document.activeElement.id : null;
  place.replaceChildren(...items.map((item) => group(item, choose)));
  if (focused) document.getElementById(focused)?.focus();
}

function group(item, choose) {
  const reasons = [...new Set([item.reason, ...item.choices.map((choice) => choice.reason)].filter(Boolean))];
  const describedBy = (reason) => (reason ? `reason-${item.name}-${reasons.indexOf(reason)}` : null);
  const choices = item.choices.map((choice, i) => {
    const reason = choice.reason ?? item.reason;
    const input = element("input", {
      type: "radio",
      id: `choice-${item.name}-${i}`,
      name: item.name,
      value: choice.value,
      checked: choice.value === item.value,
      disabled: reason !== null,
      "aria-describedby": describedBy(reason),
    });
    input.addEventListener("change", () => choose(item.name, choice.value));
    return element("label", { class: "choice" }, input, element("span", {}, choice.label));
  });
  return element(
    "fieldset",
    { class: "toggle", "data-name": item.name, "aria-describedby": describedBy(item.reason) },
    element("legend", {}, item.label),
    element("div", { class: "choices" }, ...choices),
    ...reasons.map((reason, i) => {
      const text = withCode(reasonFor(item, reason));
      return element("p", { class: "reason", id: `reason-${item.name}-${i}` }, ...text);
    }),
  );
}

// What stands between backticks is a command.
const withCode = (text) => text.split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part));

// A reason of one choice alone names the choice.
function reasonFor(item, reason) {
  const of = item.choices.filter((choice) => choice.reason === reason).map((choice) => choice.label);
  return reason === item.reason || of.length === item.choices.length ? reason : `${of.join(", ")}: ${reason}`;
}
