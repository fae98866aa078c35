/** Requests to the server. Whatever goes wrong is a `Problem` with words for the reader. */

import { signal } from "@preact/signals";
import { reachable } from "./live";

/** True while the server wants a token that this browser has not shown. */
export const locked = signal(false);

/** An RFC 9457 answer, or the lack of any answer (`status` 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly code: string = "",
    readonly field: string = "",
    readonly body: unknown = null,
  ) {
    super(detail);
  }
}

interface Options {
  body?: unknown;
  version?: string | number; // the one that was read; another one there is a 409
  signal?: AbortSignal;
  query?: Record<string, string | number | boolean | undefined>;
}

export async function call<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const headers: Record<string, string> = {};
  let body: BodyInit | undefined;
  if (options.body !== undefined) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(options.body);
  }
  if (options.version) headers["if-match"] = `"v${options.version}"`;
  const init: RequestInit = { method, headers };
  if (body !== undefined) init.body = body;
  if (options.signal) init.signal = options.signal;
  let response: Response;
  try {
    response = await fetch(`/api/${path}${search(options.query)}`, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    reachable.value = false;
    throw new Problem(0, "");
  }
  const text = await response.text();
  const data = json(text);
  locked.value = response.status === 401;
  if (!response.ok) throw problem(response.status, data, text);
  return data as T;
}

export const get = <T>(path: string, query: Options["query"] = {}, signal?: AbortSignal): Promise<T> =>
  call<T>("GET", path, { query, ...(signal && { signal }) });
/** `body` null: none is sent, for what needs no words. */
export const post = <T>(path: string, body: unknown = null): Promise<T> =>
  call<T>("POST", path, body === null ? {} : { body });
export const patch = <T>(path: string, body: unknown, version: string | number = ""): Promise<T> =>
  call<T>("PATCH", path, { body, version });
export const remove = <T>(path: string, version: string | number = ""): Promise<T> =>
  call<T>("DELETE", path, { version });

/** A file as it is. `fetch` does not say how much of it is on its way; this does. */
export function upload<T>(path: string, file: Blob, query: Options["query"], onSent: (share: number) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/${path}${search(query)}`);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.upload.onprogress = ({ loaded, total }) => onSent(total ? loaded / total : 0);
    request.onerror = () => {
      reachable.value = false;
      reject(new Problem(0, ""));
    };
    request.onload = () => {
      const data = json(request.responseText);
      locked.value = request.status === 401;
      if (request.status < 300) resolve(data as T);
      else reject(problem(request.status, data, request.responseText));
    };
    request.send(file);
  });
}

function search(query: Options["query"]): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== "") params.set(name, String(value));
  }
  return params.size ? `?${params}` : "";
}

function json(text: string): unknown {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function problem(status: number, data: unknown, text: string): Problem {
  const said = (data ?? {}) as Record<string, unknown>;
  const nested = (said["error"] ?? {}) as Record<string, unknown>;
  const detail = said["detail"] ?? nested["message"] ?? said["title"] ?? text;
  return new Problem(
    status,
    typeof detail === "string" ? detail : JSON.stringify(detail),
    String(said["type"] ?? nested["code"] ?? "").replace("urn:previously:", ""),
    String(said["field"] ?? ""),
    data,
  );
}
