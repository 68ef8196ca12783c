(function () {
  "use strict";
  for (const svg of document.querySelectorAll("svg.flame")) {
    const width = Number(svg.dataset.w), pad = Number(svg.dataset.p);
    const note = svg.querySelector(".note"), said = note.textContent;
    const frames = Array.from(svg.querySelectorAll("g.f"), (group) => ({
      group, rect: group.querySelector("rect"), label: group.querySelector("text"),
      name: group.querySelector("title").textContent.split("\n")[0],
      x: Number(group.dataset.x), w: Number(group.dataset.w),
    }));
    const show = (x, w) => {
      for (const frame of frames) {
        const left = Math.max(0, (frame.x - x) / w), right = Math.min(1, (frame.x + frame.w - x) / w);
        const pixels = (right - left) * width;
        frame.group.style.display = pixels > 0.05 ? "" : "none";
        if (pixels <= 0.05) continue;
        frame.rect.setAttribute("x", pad + left * width);
        frame.rect.setAttribute("width", pixels);
        frame.label.setAttribute("x", pad + left * width + 3);
        const fits = Math.floor((pixels - 6) / 6.6);
        frame.label.textContent = fits < 3 ? "" : frame.name.length <= fits ? frame.name : frame.name.slice(0, fits - 1) + "…";
      }
    };
    const search = () => {
      const text = window.prompt("Part of a function's name", "");
      if (text === null) return;
      const part = text.toLowerCase();
      const hits = frames.filter((frame) => part !== "" && frame.name.toLowerCase().includes(part));
      let share = 0, end = 0;
      for (const frame of frames) frame.group.classList.toggle("hit", hits.includes(frame));
      for (const hit of hits.slice().sort((a, b) => a.x - b.x || b.w - a.w)) {
        const from = Math.max(end, hit.x), to = hit.x + hit.w;
        if (to > from) { share += to - from; end = to; }
      }
      note.textContent = part === "" ? said : hits.length + " frames, " + (share * 100).toFixed(1) + " % of the samples";
    };
    const button = (name, act) => {
      const element = svg.querySelector("." + name);
      element.addEventListener("click", act);
      element.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") act(); });
    };
    for (const frame of frames) frame.group.addEventListener("click", () => show(frame.x, frame.w));
    button("reset", () => { show(0, 1); note.textContent = said; frames.forEach((frame) => frame.group.classList.remove("hit")); });
    button("search", search);
    svg.classList.add("live");
  }
})();
