// What the page says in each state of a call, and what to do when one does not come about.

export const STATES = {
  idle: ["Ready when you are", ""],
  connecting: ["Connecting …", "Allow the microphone when the browser asks."],
  waiting: ["One moment", "The line is open; the engines are getting ready."],
  listening: ["Listening", "Speak whenever you like."],
  hearing: ["Hearing you", ""],
  thinking: ["Thinking", ""],
  speaking: ["Speaking", "Interrupt whenever you like."],
  reconnecting: ["Reconnecting …", "The connection was lost; the conversation goes on where it was."],
  ended: ["Hung up", "The conversation above stays here until you start another."],
};

// Why there is no call. `state` is "refused" (try later) or "failed"; `again`: the same may work in a moment.
export class Problem extends Error {
  constructor(title, advice, { state = "failed", again = false } = {}) {
    super(`${title}: ${advice}`);
    Object.assign(this, { title, advice, state, again });
  }
}

export const insecure = () =>
  new Problem(
    "No microphone here",
    "Browsers give it only to pages from this computer or over https: open this page at http://localhost or https.",
  );

export function microphoneProblem(error) {
  switch (error.name) {
    case "NotAllowedError":
    case "SecurityError":
      return new Problem(
        "The microphone was not allowed",
        "Allow it for this page in the browser's address bar, then start again.",
      );
    case "NotFoundError":
    case "OverconstrainedError":
      return new Problem("No microphone was found", "Plug one in, or switch it on, then start again.");
    default:
      return new Problem(
        "The microphone cannot be opened",
        "Another program may be using it: close that one, then start again.",
      );
  }
}

export const microphoneLost = () =>
  new Problem("The microphone has gone", "Plug it in again, then start again: the conversation goes on where it was.");

export const noAddress = () =>
  new Problem(
    "No network address",
    "Connect this computer to any network, even one without internet, then start again.",
  );

export const noConnection = () =>
  new Problem(
    "No connection for sound",
    "The page was reached, but no sound gets through. A firewall or VPN may block UDP: switch it off and start again.",
    { again: true },
  );

export const serverGone = () =>
  new Problem("The server does not answer", "See whether turnscope serve still runs, then start again.", {
    again: true,
  });

export function refusal(status, said) {
  const advice = said?.error || `The server refused the call (${status}); reload the page and start again.`;
  if (said?.full) return new Problem("All lines are taken", advice, { state: "refused" });
  return new Problem("The call was refused", advice, { state: "refused", again: status === 429 || status >= 500 });
}
