"""Conversations by chat templates of every manner, as transformers renders them; what it trains of each by {% generation %}.

    chat_templates.py FILE

What a template puts in [[...]] is the assistant's. Both are recorded: the template without them, which tells nothing, and the
one with {% generation %} in their place.
"""
import json
import sys

from transformers.utils.chat_template_utils import render_jinja_template

BEGIN, END = "<|system|>", "<|end|>"  # of the text, and of a turn
PROMPT = "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
TURN = "<|{{ m.role }}|>\n"


def loop(said, others="{{ m.content }}<|end|>", before="", turn=TURN, behind="\n", after=PROMPT):
    return (before + "{% for m in messages %}" + turn + "{% if m.role == 'assistant' %}[[" + said + "]]{% else %}" + others
            + "{% endif %}" + behind + "{% endfor %}" + after)


TEMPLATES = {
    "plain": loop("{{ m.content }}<|end|>"),
    "trims": loop("{{ m.content | trim }}<|end|>", "{{ m.content | trim }}<|end|>"),
    "begins with a token": loop("{{ m['content'] }}<|end|>", before="{{ bos_token }}"),
    "ends in another token": loop("{{ m.content }}<|end|>",
                                  after="{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"),
    "a line before the end": loop("{{ m.content }}\n<|end|>", "{{ m.content }}\n<|end|>"),
    "names the assistant otherwise": loop("{{ m.content | trim }}<|end|>", "{{ m.content | trim }}<|end|>",
                                          turn="<|{{ 'model' if m.role == 'assistant' else m.role }}|>",
                                          after="{% if add_generation_prompt %}<|model|>{% endif %}"),
    "brackets around the user": "{% for m in messages %}{% if m.role == 'assistant' %}[[ {{ m.content }}{{ eos_token }}]]"
                                "{% else %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}",
    "adds a system message": loop("{{ m.content }}<|end|>",
                                  before="{% if messages[0].role != 'system' %}<|system|>\nBe good.<|end|>\n{% endif %}"),
    "forgets earlier thoughts": loop("{% if loop.last and m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
                                     "{{ m.content.split('</think>')[-1].lstrip('\n') }}<|end|>"),
    "writes a thought for each turn": loop("<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n{{ m.content }}<|end|>"),
    "writes calls of tools": loop("{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}<|call|>"
                                  '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}'
                                  "<|call|>{% endfor %}<|end|>", before="{% if tools %}{{ tools | tojson(indent=2) }}\n{% endif %}"),
    "asks for a thought": "{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == 'assistant' %}<think>[[{{ m.reasoning_content or '' }}"
                          "</think>{{ m.content }}{% for c in m.tool_calls or [] %}<|call|>{{ c.function.name }}"
                          "{{ c.function.arguments | tojson }}<|call|>{% endfor %}<|end|>]]{% else %}{{ m.content }}<|end|>{% endif %}\n"
                          "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n<think>\n{% endif %}",
    "has answers of tools in the turn": "{% set called = namespace(name='') %}{% for m in messages %}{% if m.role == 'tool' %}"
                                        "<|tool|>{{ called.name }}: {{ m.content }}<|tool|>{% elif m.role == 'assistant' %}"
                                        "{% if messages[loop.index0 - 1].role != 'tool' %}<|assistant|>{% endif %}[[{{ m.content }}"
                                        "{% for c in m.tool_calls or [] %}{% set called.name = c.function.name %}<|call|>{{ called.name }}("
                                        "{{ c.function.arguments | tojson }})<|call|>{% endfor %}{% if not m.tool_calls %}<|end|>{% endif %}]]"
                                        "{% else %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
                                        "{% if add_generation_prompt and messages[-1].role != 'tool' %}<|assistant|>{% endif %}",
    "two tokens end a turn": loop("{{ m.content }}<|stop|><|end|>", "{{ m.content }}<|stop|><|end|>"),
    "takes parts": loop("{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}"
                        "{% endif %}<|end|>"),
    "skips every second turn of a tool": "{% for m in messages %}{% if m.role == 'tool' %}{% continue %}{% endif %}<|{{ m.role }}|>\n"
                                         "{% if m.role == 'assistant' %}[[{{ m.content }}<|end|>]]{% else %}{{ m.content }}<|end|>"
                                         "{% endif %}\n{% endfor %}" + PROMPT,
}
CALL = [{"type": "function", "function": {"name": "get", "arguments": {"at": "Köln", "n": 1}}}]
TOOLS = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": {}}}}]


def turns(*said):
    return [{"role": role, "content": content} for role, content in said]


CONVERSATIONS = {
    "two turns": turns(("user", "2 + 2?"), ("assistant", "It is 4."), ("user", "Sure?"), ("assistant", "Yes: 4 < 5 & \"so\".")),
    "a system message": turns(("system", "Be short."), ("user", "Grüße 東?"), ("assistant", "ä\n\nö 東")),
    "the same words again": turns(("user", "a"), ("assistant", "a"), ("user", "assistant"), ("assistant", "a")),
    "white space": turns(("user", " a\n"), ("assistant", "  b\n\n"), ("user", "c"), ("assistant", "\n d ")),
    "thoughts": [*turns(("user", "a?")), {"role": "assistant", "content": "b.", "reasoning_content": "hm"},
                 *turns(("user", "c?")), {"role": "assistant", "content": "d.", "reasoning_content": "so"}],
    "calls": [*turns(("user", "rain?")), {"role": "assistant", "content": "", "tool_calls": CALL},
              *turns(("tool", "no"), ("assistant", "None."))],
}


def by_transformers(template, messages, tools=None, **tokens):
    """The text, and [begin, end) of its characters that {% generation %} encloses."""
    texts, spans = render_jinja_template([messages], tools=tools, chat_template=template, return_assistant_tokens_mask=True,
                                         **{"bos_token": BEGIN, "eos_token": END, **tokens})
    return texts[0], [list(span) for span in spans[0]]


def reference(template):
    plain = template.replace("[[", "").replace("]]", "")
    told = template.replace("[[", "{% generation %}").replace("]]", "{% endgeneration %}")
    examples = []
    for name, messages in CONVERSATIONS.items():
        takes_calls = "tool_calls" in template
        if name == "calls" and not takes_calls:
            continue
        tools = TOOLS if name == "calls" else None
        text, spans = by_transformers(told, messages, tools)
        assert text == by_transformers(plain, messages, tools)[0]
        examples.append({"messages": messages, **({"tools": tools} if tools else {}), "text": text, "spans": spans})
    return {"template": plain, "generation": told, "conversations": examples}


if __name__ == "__main__":
    made = {name: reference(template) for name, template in TEMPLATES.items()}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
