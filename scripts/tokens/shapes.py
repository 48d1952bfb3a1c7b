"""What lines of JSONL may hold: texts, prompts with their completions, conversations."""
import json
from collections import namedtuple

from tokens.json_lines import Wrong, require_text

# One line to learn from. Text: all of it. Pair: the completion. Chat: what the assistant says.
Text = namedtuple("Text", "text")
Pair = namedtuple("Pair", "prompt completion")
Chat = namedtuple("Chat", "messages tools documents given")  # given: more variables of the template

ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "model": "assistant",
         "observation": "tool", "function_response": "tool"}


def text_in(record, key):
    text = record.get(key)
    if not isinstance(text, str):
        raise Wrong(f'the line has no text in "{key}"', "name the key with --text-key" if key == "text" else "")
    require_text(text)
    return text


def content_of(message, number):
    """A message's text; None where it only calls tools."""
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type", "text") != "text" or not isinstance(part.get("text"), str):
                raise Wrong(f"message {number} has parts that are no text: {part!r:.60}")
            require_text(part["text"])
        return "".join(part["text"] for part in content)
    if content is None and message.get("tool_calls"):
        return None
    if not isinstance(content, str):
        raise Wrong(f"message {number} has no text as content")
    require_text(content)
    return content


def checked(messages, is_trained):
    if not isinstance(messages, list) or not messages:
        raise Wrong("there are no messages")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Wrong(f"message {number} has no role")
        if not isinstance(message.get("train", True), bool):
            raise Wrong(f"train of message {number} is {message['train']!r:.60}; allowed: true or false")
        content = content_of(message, number)
        # A model may say nothing; nobody learns from that.
        filled = ("user", "assistant") if is_trained else ("user",)
        if message["role"] in filled and not message.get("tool_calls") and not (content or "").strip():
            raise Wrong(f"message {number}, of role {message['role']}, is empty")
    if is_trained and not any(message["role"] == "assistant" for message in messages):
        raise Wrong("no message is of role assistant: there is nothing to learn")
    return messages


def chat(record, messages, is_trained=True):
    tools, documents, given = record.get("tools"), record.get("documents"), record.get("chat_template_kwargs") or {}
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except ValueError as error:
            raise Wrong(f"tools is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise Wrong("chat_template_kwargs is no object")
    return Chat(checked(messages, is_trained), tools or None, documents, given)


def from_conversations(record):
    """{"from": "human", "value": TEXT}."""
    messages = []
    for number, turn in enumerate(record["conversations"] if isinstance(record["conversations"], list) else [], 1):
        if not isinstance(turn, dict) or not isinstance(turn.get("from", turn.get("role")), str):
            raise Wrong(f"message {number} has no role")
        role = turn.get("from", turn.get("role"))
        rest = {key: value for key, value in turn.items() if key not in ("from", "value")}
        messages.append({**rest, "role": ROLES.get(role, role), "content": turn.get("value", turn.get("content"))})
    if messages and isinstance(record.get("system"), str):
        messages.insert(0, {"role": "system", "content": record["system"]})
    return chat(record, messages)


def from_pair(record):
    """Texts, which are joined as they are, or messages."""
    if isinstance(record["prompt"], list) and isinstance(record["completion"], list):
        before = [{**message, "is_prompt": True} if isinstance(message, dict) else message for message in record["prompt"]]
        return chat(record, before + record["completion"])
    pair = Pair(text_in(record, "prompt"), text_in(record, "completion"))
    if not pair.completion:
        raise Wrong("the completion is empty: there is nothing to learn")
    return pair


def from_instruction(record):
    more = record.get("input") or ""
    if not isinstance(more, str):
        raise Wrong('the line has no text in "input"')
    asked = text_in(record, "instruction") + (f"\n\n{more}" if more else "")
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": text_in(record, "output")}]
    if record.get("system"):
        messages.insert(0, {"role": "system", "content": text_in(record, "system")})
    return chat(record, messages)


def from_text(key):
    def read(record):
        return Text(text_in(record, key))
    return read


class Shape(namedtuple("Shape", "name keys read")):
    """A name for people, the keys that a line must have, and what reads such a line."""

    def __call__(self, record):
        if not self.keys <= record.keys():
            raise Wrong(f"the line has no {self.name}, which the first line has")
        return self.read(record)


def shapes_with(key):
    """The first that a line has the keys of is its shape; a text, at last, whatever it has. key: of a text, which goes first
    where the user named it."""
    return [*([Shape(key, {key}, from_text(key))] if key != "text" else []),
            Shape("messages", {"messages"}, lambda record: chat(record, record["messages"])),
            Shape("conversations", {"conversations"}, from_conversations),
            Shape("prompt and completion", {"prompt", "completion"}, from_pair),
            Shape("instruction, input and output", {"instruction", "output"}, from_instruction),
            Shape(key, set(), from_text(key))]


def shape_of(record, key):
    """The name of what a line holds."""
    return next(shape.name for shape in shapes_with(key) if shape.keys <= record.keys())


def shape_named(name, key):
    return next(shape for shape in reversed(shapes_with(key)) if shape.name == name)
