/** Line icons, 24 units square. */

import type { JSX } from "preact";

const PATHS = {
  archive: "M4 7h16v12H4zM3 4h18v3H3zM10 11h4",
  branch: "M7 4v16M7 9c0 4 10 2 10 7v4M17 4v3",
  chart: "M4 20V4M4 20h16M8 16l4-5 3 3 5-7",
  chats: "M4 5h16v11H9l-5 4z",
  check: "M5 12l5 5 9-10",
  chevron: "M9 6l6 6-6 6",
  copy: "M9 9h10v11H9zM5 15V4h10",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  exclude: "M5 5l14 14M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16",
  eye: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12zM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6",
  eyeOff: "M4 4l16 16M9.5 5.4A10 10 0 0 1 12 5c6 0 10 7 10 7a17 17 0 0 1-3 3.7M6 7.5A17 17 0 0 0 2 12s4 7 10 7a10 10 0 0 0 4-.9",
  history: "M5 5h14M5 10h14M5 15h10M5 20h6",
  left: "M15 6l-6 6 6 6",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  menu: "M4 7h16M4 12h16M4 17h16",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  next: "M5 12h12M12 6l6 6-6 6",
  pause: "M9 5v14M15 5v14",
  pin: "M12 21v-6M8 4h8l-1 6 3 4H6l3-4z",
  play: "M7 4l12 8-12 8z",
  plus: "M12 5v14M5 12h14",
  prompt: "M4 5h16v14H4zM8 10l2 2-2 2M13 15h4",
  refresh: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M16 16l5 5",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  start: "M4 11l8-7 8 7v9h-5v-6H9v6H4z",
  summaries: "M6 4h9l4 4v12H6zM9 12h7M9 16h5",
  tasks: "M4 6l2 2 3-4M4 14l2 2 3-4M12 7h8M12 15h8",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  undo: "M4 9h10a6 6 0 0 1 0 12h-3M4 9l4-4M4 9l4 4",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  warn: "M12 4l9 16H3zM12 10v4M12 17h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class={name === "more" ? "ico dots" : "ico"} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
