// Values under the pointer. The picture is whole without it.
for (const plot of document.querySelectorAll(".plot")) {
    const svg = plot.querySelector("svg"), cursor = plot.querySelector(".cursor"), tip = plot.querySelector(".tip");
    const curves = [...plot.querySelectorAll("[data-points]")].map(at => ({
        name: at.dataset.name, style: at.className,
        points: at.dataset.points.split(" ").map(point => point.split(",").map(Number)),
    }));
    const hide = () => { tip.hidden = true; cursor.style.visibility = "hidden"; };
    const show = event => {
        const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width, x = (event.clientX - box.left) / scale;
        const nearest = points => points.reduce((best, point) => Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best);
        const all = curves.map(curve => ({ ...curve, point: nearest(curve.points) }));
        const at = nearest(all.map(curve => curve.point));
        cursor.setAttribute("x1", at[0]); cursor.setAttribute("x2", at[0]); cursor.style.visibility = "visible";
        tip.replaceChildren("step " + at[1].toLocaleString("en"));
        for (const curve of all) {
            if (Math.abs(curve.point[0] - at[0]) > 12) continue;
            const row = document.createElement("div"), dot = document.createElement("i"), name = document.createElement("span"),
                value = document.createElement("b");
            dot.className = "dot " + curve.style; name.textContent = curve.name; value.textContent = Number(curve.point[2].toPrecision(4));
            row.append(dot, name, value); tip.append(row);
        }
        tip.hidden = false;
        const left = at[0] * scale, width = tip.offsetWidth;
        tip.style.left = Math.max(0, left + 12 + width < box.width ? left + 12 : left - 12 - width) + "px";
    };
    plot.addEventListener("pointermove", show);
    plot.addEventListener("pointerdown", show);
    plot.addEventListener("pointerleave", hide);
}
