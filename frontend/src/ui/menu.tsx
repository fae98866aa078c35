/** A button that opens a short list of actions; Escape, the arrows and a click elsewhere work. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icon";

export interface Action {
  icon: IconName;
  text: string;
  run?: () => void;
  href?: string;
  download?: boolean;
  bad?: boolean;
}

// In the menu's own list: a menu may itself stand in a list.
const ITEMS = ":scope > ul :is(button, a)";

export function Menu({ label, actions, children }: {
  label: string;
  actions: Action[];
  children?: ComponentChildren;
}): JSX.Element {
  const open = useSignal(false);
  const box = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!open.value) return;
    box.current?.querySelector<HTMLElement>(ITEMS)?.focus();
    const away = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) open.value = false;
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open.value]);

  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Escape" && open.value) {
      open.value = false;
      box.current?.querySelector("button")?.focus();
    } else if (step && open.value) {
      event.preventDefault();
      const items = [...(box.current?.querySelectorAll<HTMLElement>(ITEMS) ?? [])];
      const at = items.indexOf(document.activeElement as HTMLElement);
      items[(at + step + items.length) % items.length]?.focus();
    }
  };

  return (
    <div class="menu" ref={box} onKeyDown={keys}>
      <button
        type="button"
        class={children ? "" : "icon plain"}
        aria-label={label}
        aria-expanded={open.value}
        title={label}
        onClick={() => (open.value = !open.value)}
      >
        {children ?? <Icon name="more" />}
      </button>
      {open.value && (
        <ul>
          {actions.map((action) => (
            <li key={action.text}>
              {action.href !== undefined ? (
                <a class="button" href={action.href} download={action.download} onClick={() => setTimeout(() => (open.value = false))}>
                  <Icon name={action.icon} /> {action.text}
                </a>
              ) : (
                <button
                  type="button"
                  class={action.bad ? "bad" : ""}
                  onClick={() => {
                    open.value = false;
                    action.run?.();
                  }}
                >
                  <Icon name={action.icon} /> {action.text}
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
