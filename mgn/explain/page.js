"use strict";
// A click on a node shows its kernel's section; the pointer on it marks all that belongs together.
const nodes = [...document.querySelectorAll("svg .node")];
const kernelsOf = (node) => (node.dataset.k || "").split(" ").filter(Boolean);
const mark = (kernels) => {
  for (const node of nodes) {
    node.classList.toggle("hit", kernelsOf(node).some((k) => kernels.includes(k)));
  }
};
const sections = new Map();
for (const section of document.querySelectorAll("details[data-kernels]")) {
  for (const kernel of section.dataset.kernels.split(" ")) sections.set(kernel, section);
  section.addEventListener("pointerenter", () => mark(section.dataset.kernels.split(" ")));
}
const open = (section) => {
  section.open = true;
  section.scrollIntoView({ behavior: "smooth", block: "start" });
};
for (const node of nodes) {
  node.addEventListener("pointerenter", () => mark(kernelsOf(node)));
  node.addEventListener("click", () => {
    const [first] = kernelsOf(node);
    if (sections.has(first)) open(sections.get(first));
  });
}
const follow = () => {
  const section = document.getElementById(location.hash.slice(1));
  if (section && section.tagName === "DETAILS") open(section);
};
addEventListener("hashchange", follow);
follow();
