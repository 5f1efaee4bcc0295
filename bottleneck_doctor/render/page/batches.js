// In the lanes: shows one batch in the lane that made it and in the loop that waited for it.
"use strict";

sorts.lanes = (state) => {
  const { plot, element, spec } = state;
  const batches = [...new Set(spec.data.flatMap((trace) => trace.customdata))].filter((batch) => batch !== null);
  batches.sort((one, other) => one - other);
  let kept = null, shown = null;

  function pick(batch) {
    shown = batch;
    plot.classList.toggle("picking", batch !== null);
    const bars = plot.querySelectorAll(".barlayer .trace.bars");
    spec.data.forEach((trace, place) => {
      const points = bars[place]?.querySelectorAll(".point") ?? [];
      points.forEach((point, row) => point.classList.toggle("picked", batch !== null && trace.customdata[row] === batch));
    });
  }

  function keep(batch) {
    kept = batch;
    pick(batch);
    if (batch !== null) say(`batch ${batch}: ${described(batch)}`);
  }

  function described(batch) {
    const pieces = spec.data.flatMap((trace) =>
      trace.hovertext.filter((_, row) => trace.customdata[row] === batch));
    return pieces.map((text) => text.replace(/<[^>]*>/g, " ")).join("; ");
  }

  function turn(by) {
    if (!batches.length) return;
    const now = batches.indexOf(kept);
    keep(batches[now < 0 ? (by > 0 ? 0 : batches.length - 1) : Math.min(Math.max(now + by, 0), batches.length - 1)]);
  }

  plot.on("plotly_hover", ({ points }) => pick(points[0].customdata ?? null));
  plot.on("plotly_unhover", () => pick(kept));
  plot.on("plotly_click", ({ points }) => {
    const batch = points[0].customdata ?? null;
    keep(batch === kept ? null : batch);
  });
  plot.on("plotly_afterplot", () => pick(shown)); // its elements may be new
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") turn(1);
    if (event.key === "p") turn(-1);
    if (event.key === "Escape") keep(null);
  });
};
