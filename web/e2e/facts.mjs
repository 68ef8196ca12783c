// Facts about a page that run inside the browser: contrast of texts, names of controls, colours in a canvas.

/** Texts whose contrast with their ground is below WCAG AA (4.5, or 3 for large ones). */
export function lowContrast() {
  const channel = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => {
    const n = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return text.startsWith("color(srgb") ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const ground = (element) => {
    const layers = [];
    for (let e = element; e !== null; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    if (element === null || node.textContent.trim() === "") continue;
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    if (box.width === 0 || style.visibility === "hidden" || element.closest(":disabled, .hidden, option, noscript, .skip")) continue;
    const back = ground(element);
    const fore = over(parse(style.color), back);
    const [a, b] = [light(fore), light(back)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (contrast < least) bad.push(`${contrast.toFixed(2)} "${node.textContent.trim().slice(0, 30)}" ${style.color} on ${back.map(Math.round)}`);
  }
  return [...new Set(bad)];
}

/** Controls that a screen reader could not name. */
export function nameless() {
  const name = (e) => {
    const by = (e.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("");
    return (by || e.getAttribute("aria-label") || e.textContent || e.closest("label")?.textContent || e.getAttribute("title") || "").trim();
  };
  return [...document.querySelectorAll("button, a[href], input, select, [role=treegrid], [tabindex='0'], dialog, nav, section, [role=img]")].filter((e) => name(e) === "").map((e) => e.outerHTML.slice(0, 120));
}

/** How many pixels of a canvas are not blank. */
export function inked(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let n = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i] > 0) n++;
  return n;
}
