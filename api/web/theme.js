// Before the page is painted: the colours that were chosen last. Without a choice they are the system's.
"use strict";
try {
  const theme = localStorage.getItem("ribwarp-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // storage may be forbidden: then the system decides
}
