"""Where in a conversation's text the assistant speaks.

Templates with {% generation %} tell it. With others contents are rendered between marks. The text without marks must then be
the one that is rendered without: templates trim, split and compare contents as they like.
"""
import json
import re
from collections import namedtuple

from tokens.json_lines import Wrong, require_text
from tokens.template import BEGIN, DIGITS, END, MARK, mark

# Characters [begin, end) of the text. limit: of a turn that calls tools, whatever stands between is its own up to the token
# that ends it, which begins before `limit`. None: there is white space at most before that token.
Span = namedtuple("Span", "begin end limit")
Rendered = namedtuple("Rendered", "text spans")

THOUGHT = re.compile("(</?think>)")
CURE = "{% generation %} ... {% endgeneration %} in the template around what the assistant says"


def is_trained(message, number, messages, train_on):
    if message["role"] != "assistant" or message.get("train") is False or message.get("is_prompt"):
        return False
    return train_on != "last" or not any(later["role"] == "assistant" for later in messages[number + 1:])


def flattened(messages):
    """Contents of parts as one text, for templates that know no parts."""
    return [{**message, "content": "".join(part["text"] for part in message["content"])}
            if isinstance(message.get("content"), list) else message for message in messages]


def between_marks(text, number, trimmed):
    """Each stretch of a content. `trimmed`: what stays outside at both ends, as templates may trim it; None: white space."""
    if not text.strip():
        return text
    bare = text.strip(trimmed)
    begin = text.index(bare)
    return text[:begin] + mark(BEGIN, number) + bare + mark(END, number) + text[begin + len(bare):]


def marked(value, number, trimmed):
    """Every text in a value, at any depth. Templates split texts at the ends of thoughts."""
    if isinstance(value, str):
        return "".join(part if THOUGHT.fullmatch(part) else between_marks(part, number, trimmed) for part in THOUGHT.split(value))
    if isinstance(value, list):
        return [marked(item, number, trimmed) for item in value]
    if isinstance(value, dict):
        return {key: marked(item, number, trimmed) if key not in ("type", "id") else item for key, item in value.items()}
    return value


def spoken_of(message):
    """What the model says by it."""
    return {key: value for key, value in message.items() if key in ("content", "reasoning_content", "thinking", "reasoning", "tool_calls")}


def marked_messages(chat, numbers, trimmed):
    return [{**message, **marked(spoken_of(message), number, trimmed)} if number in numbers else message
            for number, message in enumerate(chat.messages)]


def without_marks(text):
    """The bare text, and (side, number, place) of each mark."""
    bare, places, end = [], [], 0
    length = 0
    for found in MARK.finditer(text):
        bare.append(text[end:found.start()])
        length += found.start() - end
        end = found.end()
        number = "".join(str(DIGITS.index(digit)) for digit in found[2])
        places.append((found[1], int(number) if number else -1, length))
    bare.append(text[end:])
    return "".join(bare), places


def told_spans(places):
    """Of {% generation %}, in its order."""
    spans, begins = [], []
    for side, _, place in places:
        if side == BEGIN:
            begins.append(place)
        elif begins:
            begin = begins.pop()
            if not begins and place > begin:
                spans.append(Span(begin, place, None))
    return spans


def prompt_of_model(template, chat):
    """What makes the model speak, as the template writes it before the last turn, else before the first; "": it tells none."""
    spoken = [number for number, message in enumerate(chat.messages) if message["role"] == "assistant"]
    return prompt_before(spoken[-1], template, chat) or prompt_before(spoken[0], template, chat)


def prompt_before(number, template, chat):
    try:
        bare, longer = (template.render(chat, chat.messages[:number], prompts) for prompts in (False, True))
    except Wrong:  # of a conversation that ends there
        return ""
    end = template.words.get("eos_token", "")
    for begin in (bare, bare.removesuffix(end)):
        if longer.startswith(begin):
            return longer[len(begin):]
    return ""


def render_marked(template, chat, text, numbers):
    """Marks and their places in the text; nothing: they change it."""
    for trimmed in ("", "\n", None):
        bare, places = without_marks(template.render(chat, marked_messages(chat, numbers, trimmed)))
        if bare == text:
            return places
    at = next((i for i, (one, other) in enumerate(zip(bare, text)) if one != other), min(len(bare), len(text)))
    raise Wrong("the chat template changes what it is given, so nothing tells where the assistant speaks: "
                f"...{text[max(at - 20, 0):at + 20]!r}", CURE)


def headers(prompt, text, num_turns):
    """How a turn of the model may begin, the longest first: as the prompt, or as it begins, where no other turn does."""
    shorter = [prompt[:found.end()] for found in re.finditer("[>\\]\n]", prompt)]
    return [prompt] * bool(prompt) + [header for header in reversed(shorter) if text.count(header) <= num_turns]


def begin_of_turn(prompts, text, floor, begin):
    """Behind what makes the model speak, between a turn's content and what came before; None: none of it is there."""
    for prompt in prompts:
        found = text.rfind(prompt, floor, begin)
        if found >= 0:
            return found + len(prompt)
    return None


def edges_of(places, number, message):
    """The first and the last of a message's marks. What is written once more behind all of it, such as a call's name in the
    answer, is not the turn's own."""
    num_marked = json.dumps(marked(message, number, ""), ensure_ascii=False).count(mark(END, number))
    mine = sorted((place, side) for side, of, place in places if of == number)
    ends = [place for place, side in mine if side == END][:num_marked]
    return mine[:1], ends[-1:]


def limit_of_call(template, chat, text, number):
    """Where the answer to a call begins; else where the text ends."""
    answers = [later for later in range(number + 1, len(chat.messages)) if chat.messages[later].get("content")][:1]
    bare, places = without_marks(template.render(chat, marked_messages(chat, answers, "")))
    return min((place for _, _, place in places), default=len(text)) if bare == text else len(text)


def begin_as_plain(template, chat, text, number):
    """Where the words of a plain turn would begin in place of this one; None: the text is another one there."""
    probe = [*chat.messages[:number], {"role": "assistant", "content": between_marks("a", number, "")}]
    try:
        bare, places = without_marks(template.render(chat, probe))
    except Wrong:
        return None
    before = bare[:places[0][2]].rstrip(" ") if places else None
    return len(before) if before is not None and text.startswith(before) else None


def marked_spans(template, chat, text, numbers):
    """Of the messages of these numbers, by marks."""
    places = render_marked(template, chat, text, numbers)
    prompts, spans, floor = headers(prompt_of_model(template, chat), text, len(numbers)), [], 0
    for number in numbers:
        first, last = edges_of(places, number, spoken_of(chat.messages[number]))
        if not first or not last:
            raise Wrong(f"the chat template leaves out message {number + 1}, of role assistant", CURE)
        (begin, side), = first
        end, = last
        # What it says before its content, such as a thought, is the model's own, too.
        behind = begin_of_turn(prompts, text, floor, begin)
        calls = chat.messages[number].get("tool_calls")
        if behind is None and calls:  # what begins a call is its own
            behind = begin_as_plain(template, chat, text, number)
        if behind is None and (calls or side != BEGIN):
            raise Wrong(f"nothing tells where message {number + 1} begins", CURE)
        if behind is None:  # many tokenizers join a space and the word behind it
            begin -= len(text[floor:begin]) - len(text[floor:begin].rstrip(" "))
        limit = limit_of_call(template, chat, text, number) if calls else None
        spans.append(Span(begin if behind is None else behind, end, limit))
        floor = end
    return spans


def render_parts(template, chat, prompts=False):
    """The text, and the Chat with contents as the template takes them: parts, or one text."""
    has_parts = any(isinstance(message.get("content"), list) for message in chat.messages)
    try:
        text = template.render(chat, prompts=prompts)
        if not has_parts or not any(str(message.get("content")) in text for message in chat.messages
                                    if isinstance(message.get("content"), list)):
            return chat, text
    except Wrong:
        if not has_parts:
            raise
    chat = chat._replace(messages=flattened(chat.messages))
    return chat, template.render(chat, prompts=prompts)


def require_known_roles(chat, text):
    for number, message in enumerate(chat.messages, 1):
        content = message.get("content")
        is_usual = message["role"] in ("system", "developer", "user", "assistant", "tool")
        if not is_usual and isinstance(content, str) and content.strip() and content.strip() not in text:
            raise Wrong(f'the chat template does not know the role "{message["role"]}" of message {number}')


def render(template, chat, train_on):
    """A Chat's text, and the Spans in it that are trained. train_on: assistant, last or all."""
    chat, text = render_parts(template, chat)
    require_text(text)
    require_known_roles(chat, text)
    if train_on == "all":
        if any(message.get("train") is False for message in chat.messages):
            raise Wrong('a message has "train": false, and with --train-on all each is trained', "--train-on assistant")
        return Rendered(text, [Span(0, len(text), None)])
    spoken = [number for number, message in enumerate(chat.messages) if message["role"] == "assistant"]
    trained = [number for number in spoken if is_trained(chat.messages[number], number, chat.messages, train_on)]
    if not template.of(chat).tells_spans:
        spans = marked_spans(template, chat, text, spoken)
        return Rendered(text, [span for number, span in zip(spoken, spans) if number in trained])
    bare, places = without_marks(template.render(chat, tells_spans=True))
    spans = told_spans(places)
    if bare != text:
        raise Wrong("the chat template changes what {% generation %} encloses", CURE)
    if not spans:
        raise Wrong("the chat template encloses nothing by {% generation %}", CURE)
    if trained == spoken:
        return Rendered(text, spans)
    if len(spans) != len(spoken):
        raise Wrong(f"the chat template marks {len(spans)} turns of {len(spoken)} by {{% generation %}}", CURE)
    return Rendered(text, [span for number, span in zip(spoken, spans) if number in trained])
