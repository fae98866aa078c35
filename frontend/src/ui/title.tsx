/** The head of a tab: what it is, of which chat, and what it is for. */

import type { ComponentChildren, JSX } from "preact";
import { chatTitle } from "../lib/store";

export function Title({ text, lead, ofChat = false, children }: {
  text: string;
  lead?: string;
  ofChat?: boolean;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="stack tight">
      <div class="row">
        <div class="title grow">
          <h1>{text}</h1>
          {ofChat && chatTitle.value && <span class="of">{chatTitle.value}</span>}
        </div>
        {children}
      </div>
      {lead && <p class="lead">{lead}</p>}
    </div>
  );
}
