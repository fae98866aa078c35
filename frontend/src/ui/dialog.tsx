/** A modal in the browser's own `<dialog>`: focus, Escape and the backdrop are its affair. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../lib/i18n";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}

export function Dialog({ title, onClose, children, wide = false }: Props): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={box} class={wide ? "wide" : ""} aria-labelledby={id} onClose={onClose}>
      <div class="sheet">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  text: string;
  action: string;
  onYes: () => void;
  onClose: () => void;
  bad?: boolean;
}

export function Confirm({ title, text, action, onYes, onClose, bad = false }: ConfirmProps): JSX.Element {
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{text}</p>
      <div class="row end">
        <button type="button" onClick={onClose}>{t("cancel")}</button>
        <button
          type="button"
          class={bad ? "primary bad" : "primary"}
          onClick={() => {
            onYes();
            onClose();
          }}
        >
          {action}
        </button>
      </div>
    </Dialog>
  );
}
