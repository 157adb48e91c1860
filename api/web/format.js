// Numbers and times as people read them. What is not there is a dash.

export const none = "–";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// count gives all digits: 1,042,325.
export const count = (n) => (n === null || n === undefined ? none : whole.format(n));

// plural gives a number with its noun.
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

// digits gives three of them, without zeros behind the point.
function digits(n) {
  const places = Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 10 ? 1 : 2;
  return String(Number(n.toFixed(places)));
}

// short gives a number with three digits: 1.04 M.
export function short(n) {
  if (n === null || n === undefined) return none;
  const size = Math.abs(n);
  if (size >= 999.5e6) return digits(n / 1e9) + " G";
  if (size >= 999.5e3) return digits(n / 1e6) + " M";
  if (size >= 999.5) return digits(n / 1e3) + " k";
  return digits(n);
}

export const perSecond = (n) => (n === null || n === undefined ? none : short(n) + "/s");

export function bytes(n) {
  if (n === null || n === undefined) return none;
  if (n >= 2 ** 30) return digits(n / 2 ** 30) + " GiB";
  if (n >= 2 ** 20) return digits(n / 2 ** 20) + " MiB";
  if (n >= 2 ** 10) return digits(n / 2 ** 10) + " KiB";
  return digits(n) + " B";
}

// duration is for what takes less than minutes.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return none;
  if (seconds === 0) return "0 s";
  if (seconds < 999.5e-9) return digits(seconds * 1e9) + " ns";
  if (seconds < 999.5e-6) return digits(seconds * 1e6) + " µs";
  if (seconds < 0.9995) return digits(seconds * 1e3) + " ms";
  if (seconds < 120) return digits(seconds) + " s";
  return age(seconds);
}

// age is for how long ago something was.
export function age(seconds) {
  if (seconds === null || seconds === undefined) return none;
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export const since = (time) => (time ? age((Date.now() - Date.parse(time)) / 1000) : none);

// clock is the time of day of a number of Unix seconds.
export function clock(unix, withSeconds) {
  const d = new Date(unix * 1000);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}` + (withSeconds ? `:${two(d.getSeconds())}` : "");
}

export const percent = (part, all) => (all > 0 ? `${digits((100 * part) / all)} %` : none);
