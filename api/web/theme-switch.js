// The button that chooses the colours: the system's, light, dark. theme.js applies the choice before
// the next page is painted.
import { byId } from "./dom.js";

const order = ["", "light", "dark"];
const words = { "": "as the system has them", light: "light", dark: "dark" };
const signs = { "": "◐", light: "○", dark: "●" };

export function themeSwitch() {
  const button = byId("theme"), root = document.documentElement;
  const show = () => {
    const theme = root.dataset.theme || "";
    button.textContent = signs[theme];
    button.title = button.ariaLabel = `Colours: ${words[theme]}`;
  };
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(root.dataset.theme || "") + 1) % order.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    try {
      if (next) localStorage.setItem("ribwarp-theme", next);
      else localStorage.removeItem("ribwarp-theme");
    } catch {
      // storage may be forbidden: the choice holds for this page
    }
    show();
  });
  show();
}
