// A few words for making elements.

export const byId = (id) => document.getElementById(id);

// element("p", { class: "note", hidden: true, style: { left: "3%" } }, "text", child)
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") for (const [property, set] of Object.entries(value)) made.style.setProperty(property, set);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
