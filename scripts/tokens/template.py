"""Conversations become text by a model's own chat template, as transformers' apply_chat_template makes it."""
import json
import os
import re
import sys
from collections import namedtuple
from threading import Lock

from tokens.beside import read_json, read_text
from tokens.json_lines import Wrong
from tokens.problem import MachineProblem, Problem

TOKEN_NAMES = "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"
UNREAD = "additional_chat_templates/tool_use.jinja"  # beside chat_template.jinja
REASONING = "reasoning_content", "thinking", "reasoning"

# Around what {% generation %} encloses, and around contents: noncharacters, which no text has.
BEGIN, END, DIGITS = "\ufdd0", "\ufdd1", "".join(map(chr, range(0xFDE0, 0xFDEA)))
MARK = re.compile(f"([{BEGIN}{END}])([{DIGITS}]*)")


def mark(side, number):
    return side + "".join(DIGITS[int(digit)] for digit in str(number))


# A template's jinja2, and whether it has {% generation %}.
Template = namedtuple("Template", "jinja tells_spans")


def find_templates(folder):
    """Texts by name: chat_template.jinja, the default; else what tokenizer_config.json has, one or a list."""
    found = read_text(folder, "chat_template.jinja")
    if found is None:
        found = read_json(folder, "tokenizer_config.json").get("chat_template")
    if not isinstance(found, list):
        found = [{"name": "default", "template": found}]
    named = {str(entry.get("name")): entry.get("template") for entry in found if isinstance(entry, dict)}
    return {name: text for name, text in named.items() if isinstance(text, str)}


def read_templates(folder):
    """Those that may be chosen."""
    found = find_templates(folder)
    if "default" not in found:
        raise Problem("these are conversations, and the tokenizer has no chat template", folder or ".",
                      "a chat_template.jinja beside the tokenizer.json, of the model's kin; or lines of prompt and completion")
    return {name: found[name] for name in ("default", "tool_use") if name in found}


def special_words(folder):
    """bos_token and its like, as templates know them."""
    config = {**read_json(folder, "special_tokens_map.json"), **read_json(folder, "tokenizer_config.json")}
    words = {name: config.get(name) for name in TOKEN_NAMES}
    words = {name: word.get("content") if isinstance(word, dict) else word for name, word in words.items()}
    return {name: word for name, word in words.items() if isinstance(word, str)}


def environment(date):
    """jinja2's sandbox, with what templates find in transformers."""
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
    except ImportError:
        raise MachineProblem("this Python has no jinja2, which chat templates need", sys.executable, "pip install jinja2") from None

    class Generation(jinja2.ext.Extension):
        """{% generation %}: what the model says. Its text comes between marks where these are asked for."""
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("between_marks"), [], [], body).set_lineno(line)

        def between_marks(self, caller):
            text = caller()
            return BEGIN + text + END if self.environment.tells_spans else text

    class Namespace(jinja2.utils.Namespace):
        def __init__(*arguments, **names):
            for name in dict(*arguments[1:], **names):
                refuse_name(name)
            jinja2.utils.Namespace.__init__(*arguments, **names)

        def __setitem__(self, name, value):
            refuse_name(name)
            super().__setitem__(name, value)

    class Dict:
        __call__ = staticmethod(dict)
        fromkeys = staticmethod(dict.fromkeys)

    def refuse_name(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace has no {name}")

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                        extensions=[Generation, jinja2.ext.loopcontrols])
    made.tells_spans = False
    made.filters["tojson"] = to_json
    made.globals.update(raise_exception=refuse, strftime_now=date.strftime, dict=Dict(), namespace=Namespace)
    return made


def with_reasoning(message):
    """Under all names that templates read."""
    reasoning = next((message[name] for name in REASONING if message.get(name) is not None), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


class ChatTemplate:
    def __init__(self, folder, date):
        """date: a datetime, which strftime_now() tells."""
        self.where = os.path.join(folder, "chat_template.jinja or tokenizer_config.json")
        texts = read_templates(folder)
        self.leaves_tools_out = os.path.exists(os.path.join(folder, UNREAD))
        self.words = special_words(folder)
        self.environment, self.lock = environment(date), Lock()
        self.templates = {name: self.made(text) for name, text in texts.items()}

    def made(self, text):
        tells_spans = re.search(r"\{%-?\s*generation\s*-?%\}", re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)) is not None
        try:
            return Template(self.environment.from_string(text), tells_spans)
        except Exception as error:
            raise Problem(f"the chat template is none: {error}", self.where) from None

    def of(self, chat):
        """The Template of a Chat: where there are tools, the one for these, as transformers chooses."""
        if chat.tools and self.leaves_tools_out:
            raise Wrong(f"{UNREAD}, which is for tools, is not read",
                        "one chat_template.jinja with {% if tools %}; or remove that file, if the other knows tools")
        return self.templates.get("tool_use" if chat.tools else "default") or self.templates["default"]

    def render(self, chat, messages=None, prompts=False, tells_spans=False):
        """The text of a Chat, or of other messages in their place; `prompts`: with what makes the model speak."""
        template = self.of(chat).jinja
        try:
            with self.lock:  # threads share the environment
                self.environment.tells_spans = tells_spans
                return template.render(**{**self.words, **chat.given, "messages": list(map(with_reasoning, messages or chat.messages)),
                                          "tools": chat.tools, "documents": chat.documents, "add_generation_prompt": prompts})
        except Exception as error:  # of whatever a template does
            raise Wrong(f"the chat template refuses it: {str(error) or type(error).__name__}") from None
