"""Response items and messages: the one place where the one becomes the other.

A model's answer is a run of items (thoughts, words, calls); all of them are one message, so that
nothing that belongs together is ever parted. What a message cannot tell, such as a sealed thought,
stays with it as it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from previously.model import ITEMS, Wire
from previously.text.clean import clean
from previously.text.wire import as_list, as_object, text_of

Raw = dict[str, Any]


class Told(Wire):
    """A message that was read from the items of the request at hand."""


# What an answer has beside its words, and what tells nothing.
_UNTOLD = ("status", "annotations", "logprobs")
_OUTPUT = "_output"
_APPROVAL = "mcp_approval_request"
_APPROVED = "mcp_approval_response"
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


# Items to messages


def instructions(text: str) -> Told:
    """What a request says of itself, as a message that is none of its items."""
    told = Told(role="system", content=text)
    told.origin = []
    return told


def messages_of(items: Sequence[Any]) -> list[Any]:
    """Items as messages, each with the items that it stands for; what is no item stays itself."""
    made: list[Any] = []
    run: list[Raw] = []
    for item in items:
        is_item, fields = isinstance(item, dict), as_object(item)
        if is_item and _is_said(fields):
            if run and _begins_anew(run, fields):
                made.append(answer_of(run))
                run = []
            run.append(fields)
            continue
        if run:
            made.append(answer_of(run))
            run = []
        made.append(_told(fields) if is_item else item)
    return [*made, answer_of(run)] if run else made


def _is_said(item: Mapping[str, Any]) -> bool:
    """Whether a model has made it."""
    if _is_message(item):
        return item.get("role") == "assistant"
    return _answers(item) is None


def _is_message(item: Mapping[str, Any]) -> bool:
    return item.get("type", "message") == "message" and "role" in item


def _begins_anew(run: Sequence[Mapping[str, Any]], item: Mapping[str, Any]) -> bool:
    """A model's own items have ids; two that a client has written are two messages."""
    if not _is_message(item):
        return False
    said = [one for one in run if _is_message(one)]
    return bool(said) and not ("id" in item and "id" in said[-1])


def answer_of(items: Sequence[Raw]) -> Told:
    """One answer of a model."""
    content = "".join(_words(one.get("content")) for one in items if _is_message(one))
    calls = [call for one in items if (call := _call(one)) is not None]
    wire = Told(role="assistant", content=content)
    if calls:
        wire["tool_calls"] = calls
    return _with(wire, items)


def _told(item: Raw) -> Told:
    """What a client says or has found out."""
    answered = _answers(item)
    if answered is not None:
        wire = Told(role="tool", tool_call_id=answered, content=_result(item))
    else:
        wire = Told(role=item.get("role"), content=_content(item.get("content")))
    return _with(wire, [item])


def _with(wire: Told, items: Sequence[Raw]) -> Told:
    wire.origin = list(items)
    if [_core(one) for one in items] != [_core(one) for one in _built(wire)]:
        wire[ITEMS] = wire.origin  # kept with the message: it could not be told from it
    return wire


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(_text(as_object(part)) or "" for part in as_list(content))


def _text(part: Mapping[str, Any]) -> str | None:
    text = part.get(_TEXTS.get(str(part.get("type")), ""))
    return text if isinstance(text, str) else None


def _content(content: object) -> object:
    """A content that is all text is a text, in however many parts it came."""
    if not isinstance(content, list):
        return content
    parts = [as_object(part) for part in as_list(cast(object, content))]
    texts = [_text(part) for part in parts]
    if texts and all(text is not None for text in texts):
        return "\n".join(text for text in texts if text is not None)
    return [_part(part) for part in parts]


def _part(part: Mapping[str, Any]) -> Raw:
    kind, text = part.get("type"), _text(part)
    if text is not None:
        return {"type": "text", "text": text}
    rest = {k: v for k, v in part.items() if k != "type"}
    if kind == "input_image" and "image_url" in rest:
        return {"type": "image_url", "image_url": {"url": rest.pop("image_url"), **rest}}
    if kind == "input_file":
        return {"type": "file", "file": rest}
    return dict(part)


def _call(item: Mapping[str, Any]) -> Raw | None:
    """The call that an item makes and somebody else has to answer."""
    kind = str(item.get("type"))
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        return {"id": item.get("call_id"), "type": "function", "function": function}
    if kind == "custom_tool_call":
        custom = {"name": item.get("name"), "input": item.get("input")}
        return {"id": item.get("call_id"), "type": "custom", "custom": custom}
    call_id = item.get("id") if kind == _APPROVAL else item.get("call_id")
    if not isinstance(call_id, str):
        return None
    rest = {k: v for k, v in item.items() if k not in ("type", "id", "call_id", "status")}
    return {"id": call_id, "type": kind, kind: rest}


def _answers(item: Mapping[str, Any]) -> str | None:
    """The call that an item answers."""
    kind = str(item.get("type"))
    name = "approval_request_id" if kind == _APPROVED else "call_id"
    answered = item.get(name) if kind == _APPROVED or kind.endswith(_OUTPUT) else None
    return answered if isinstance(answered, str) else None


def _result(item: Mapping[str, Any]) -> object:
    if item.get("type") == _APPROVED:
        return "approved" if item.get("approve") else "not approved"
    output = item.get("output")
    if output is None or isinstance(output, str):
        return output or ""
    if isinstance(output, list) and item.get("type") in _ANSWERS.values():
        return _content(cast(object, output))
    kind = as_object(cast(object, output)).get("type")
    return f"[{kind}]" if kind else json.dumps(output, ensure_ascii=False)


# Messages to items


def build_stateless_items(messages: Iterable[Any]) -> list[Any]:
    """Messages as the items of a request that stands for itself, each as it came where it came as
    items and still says the same. What is no message stays itself."""
    kinds: dict[str, str] = {}  # of the calls so far, by id
    made: list[Any] = []
    for one in messages:
        if not isinstance(one, Mapping):
            made.append(one)
            continue
        message = cast("Mapping[str, Any]", one)
        kinds |= {str(c.get("id")): str(c.get("type")) for c in _calls(message)}
        origin = message.origin if isinstance(message, Wire) else None
        if origin is not None and _still(message, origin):
            made += usable(origin)
        else:
            made += _built(message, kinds)
    return made


def usable(items: Sequence[Raw]) -> list[Raw]:
    """Without what an upstream that stores nothing would have to look up.

    A thought that is only named went with a name for what follows it: that name would be asked for.
    """
    kept = [one for one in items if not _is_only_named(one)]
    if len(kept) == len(items):
        return list(items)
    return [{k: v for k, v in one.items() if k != "id"} for one in kept]


def _is_only_named(item: Mapping[str, Any]) -> bool:
    kind = item.get("type")
    if kind == "reasoning":
        return not item.get("encrypted_content") and not item.get("content")
    return kind == "item_reference" or (kind is None and set(item) == {"id"})


def _still(message: Mapping[str, Any], origin: Sequence[Raw]) -> bool:
    """Whether the items say what the message says: it may have been edited since."""
    if isinstance(message, Told):
        return True
    again = messages_of(origin)
    return len(again) == 1 and _told_by(again[0]) == _told_by(message)


def _told_by(message: Mapping[str, Any]) -> tuple[object, ...]:
    calls = [call.get("id") for call in _calls(message)]
    return message.get("role"), clean(text_of(message.get("content"))), calls


def _calls(message: Mapping[str, Any]) -> list[Raw]:
    return [as_object(call) for call in as_list(message.get("tool_calls"))]


_ANSWERS = {"function": "function_call_output", "custom": "custom_tool_call_output"}
_NAMELESS = frozenset({"message", "function_call", "custom_tool_call", *_ANSWERS.values()})


def _built(message: Mapping[str, Any], kinds: Mapping[str, str] | None = None) -> Iterator[Raw]:
    """The items that a message alone can tell."""
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        call_id = str(message.get("tool_call_id"))
        kind = _ANSWERS.get((kinds or {}).get(call_id, "function"), "function_call_output")
        yield {"type": kind, "call_id": call_id, "output": _as_input(content)}
        return
    calls = _calls(message)
    if content or not calls:
        said = _as_input(content)
        name = message.get("name")
        if name and isinstance(said, str):
            said = f"{name}: {said}"  # an item has no other place for who speaks
        yield {"type": "message", "role": role, "content": said}
    for call in calls:
        yield _as_call(call)


def _as_call(call: Mapping[str, Any]) -> Raw:
    kind = str(call.get("type") or "function")
    held = as_object(call.get(kind))
    if kind == "function":
        return {"type": "function_call", "call_id": call.get("id"), **held}
    if kind == "custom":
        return {"type": "custom_tool_call", "call_id": call.get("id"), **held}
    name = "id" if kind == _APPROVAL else "call_id"
    return {"type": kind, name: call.get("id"), **held}


def _as_input(content: object) -> object:
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    return [_as_part(as_object(part)) for part in as_list(cast(object, content))]


def _as_part(part: Mapping[str, Any]) -> Raw:
    kind = part.get("type")
    if kind == "text":
        return {"type": "input_text", "text": part.get("text")}
    if kind == "image_url":
        held = part.get("image_url")
        image = dict(as_object(held)) or {"url": held}
        return {"type": "input_image", "image_url": image.pop("url", None), **image}
    if kind == "file":
        return {"type": "input_file", **as_object(part.get("file"))}
    return dict(part)


def _core(item: Mapping[str, Any]) -> Raw:
    """What two items that say the same have in common."""
    core = {k: v for k, v in item.items() if v is not None and not _is_idle(k, v)}
    core.setdefault("type", "message")
    if str(core["type"]) in _NAMELESS:
        core.pop("id", None)
    if "content" in core:
        core["content"] = _core_content(core["content"])
    if isinstance(core.get("output"), list):
        core["output"] = _core_content(core["output"])
    return core


def _is_idle(name: str, value: object) -> bool:
    return name in _UNTOLD and (not value or value == "completed")


def _core_content(content: object) -> object:
    parts = [as_object(part) for part in as_list(content)]
    if len(parts) != 1 or _text(parts[0]) is None or parts[0].get("type") == "refusal":
        return content
    known = {"type", "text", *_UNTOLD}
    told = all(k in known and not (k in _UNTOLD and v) for k, v in parts[0].items() if v)
    return _text(parts[0]) if told else content
