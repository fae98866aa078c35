/** What stands where there is nothing to show: not yet, not at all, or not any more. */

import type { ComponentChildren, JSX } from "preact";
import type { Resource } from "../lib/resource";
import { Problem } from "../lib/api";
import { t } from "../lib/i18n";
import { href } from "../lib/route";
import { Icon, type IconName } from "./icon";
import { words } from "./toast";

export function Loading({ rows = 4 }: { rows?: number }): JSX.Element {
  return (
    <div class="bones" role="status">
      <span class="visually-hidden">{t("loading")}</span>
      {Array.from({ length: rows }, (_, row) => <i key={row} />)}
    </div>
  );
}

interface EmptyProps {
  icon: IconName;
  title: string;
  text?: string;
  children?: ComponentChildren;
}

export function Empty({ icon, title, text, children }: EmptyProps): JSX.Element {
  return (
    <div class="state">
      <Icon name={icon} />
      <h2>{title}</h2>
      {text && <p>{text}</p>}
      {children && <div class="row">{children}</div>}
    </div>
  );
}

export function Failed({ error, retry }: { error: unknown; retry: () => void }): JSX.Element {
  const gone = error instanceof Problem && error.status === 404; // to ask again changes nothing
  return (
    <div class="state" role="alert">
      <Icon name="warn" />
      <h2>{t("problem.title")}</h2>
      <p>{words(error)}</p>
      <div class="row">
        <button type="button" onClick={retry}>
          <Icon name="refresh" /> {t("retry")}
        </button>
        {gone && <a class="button" href={href({ tab: "chats", chat: "" })}>{t("problem.chats")}</a>}
      </div>
    </div>
  );
}

/** The right one of the three, or the children once there is something. */
export function Shown<T>({ of, children }: {
  of: Resource<T>;
  children: (data: T) => ComponentChildren;
}): JSX.Element {
  const data = of.data.value;
  if (data !== null) return <>{children(data)}</>;
  const problem = of.problem.value;
  return problem ? <Failed error={problem} retry={of.reload} /> : <Loading />;
}
