#!/usr/bin/env python3
"""Conversations become examples: texts and masks of templates in each manner, written down by hand. Skipped (77) where no Python
has tokenizers. What is trained stands in [[brackets]]."""
import array
import itertools
import json
import struct
import sys
import tempfile
import unittest
from datetime import datetime
from pathlib import Path

import other_python

other_python.require("tokenizers", "torch", "transformers")
other_python.require("jinja2", "torch", "transformers")
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from tokens.examples import GUARD, ExampleWriter, Manner, Reader, Work, are_examples, make_examples, shapes_in  # noqa: E402
from tokens.json_lines import Wrong  # noqa: E402
from tokens.problem import Problem  # noqa: E402
from tokens.template import ChatTemplate  # noqa: E402
from tokens.shapes import Chat  # noqa: E402
from tokens.token_files import TokenWriter  # noqa: E402

END = "<|end|>"
WORDS = [END, "<|user|>", "<|assistant|>", "<|system|>", "<|call|>", "<|tool|>", "<|stop|>"]

PLAIN = """{% for m in messages %}<|{{ m['role'] }}|>
{{ m['content'] }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
TRIMS = PLAIN.replace("m['content'] }}", "m['content'] | trim }}")
FIRST_WORDS = "{{ bos_token }}" + TRIMS  # of a tokenizer
ENDS_ALL = PLAIN.replace("{% endif %}", "{% else %}{{ eos_token }}{% endif %}")  # as Phi 3
SPACED = PLAIN.replace("}}<|end|>", "}}\n<|end|>")
GENERATION = """{% for m in messages %}<|{{ m['role'] }}|>
{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] + '<|end|>' }}
{% endgeneration %}{% else %}{{ m['content'] }}<|end|>
{% endif %}{% endfor %}"""
NO_END = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
SHOUTS = PLAIN.replace("m['content'] }}", "m['content'] | upper | replace('\\ufdd0', '') }}")
# Earlier reasoning is dropped, as by Qwen 3: a text is not what it was with one turn less.
FORGETS = """{% for m in messages %}<|{{ m['role'] }}|>
{% set said = m['content'] %}{% if m['role'] == 'assistant' %}{% if '</think>' in said %}{% set said = said.split('</think>')[-1] %}{% endif %}
{% if loop.last %}<think>{{ m['content'].split('</think>')[0].split('<think>')[-1] }}</think>{% endif %}{% endif %}{{ said }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
CALLS = """{% for m in messages %}<|{{ m.role }}|>
{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}<|call|>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
<|call|>{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
PARTS = """{% for m in messages %}<|{{ m.role }}|>
{% for part in m.content %}{{ part.text }}{% endfor %}<|end|>
{% endfor %}"""
REFUSES = "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no ' + m.role) }}{% endif %}{% endfor %}" + PLAIN
KNOWS_TWO = "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endif %}{% endfor %}"
DATED = "{{ strftime_now('%d %B %Y') }}" + PLAIN

TWO = [("user", "2 + 2?"), ("assistant", "It is 4."), ("user", "Sure?"), ("assistant", " Yes.\n")]


def messages(*turns):
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


TRAINED = messages(("user", "a"), ("assistant", "b"))["messages"]


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(["It is four. user assistant"] * 3, trainers.BpeTrainer(
            vocab_size=320, special_tokens=WORDS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        self.tokenizer = tokenizer
        (self.path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "bos_token": "<|system|>"}))

    def make(self, template, *records, raw=None, text_key="text", train_on="assistant", end_of_turn="", special="error", **_):
        """The marked text of each example."""
        if template is not None:
            (self.path / "chat_template.jinja").write_text(template)
        data = self.path / "a.jsonl"
        data.write_text(raw or "".join(json.dumps(record) + "\n" for record in records))
        out = self.path / "tokens.tok"
        for name in ("tokens.tok", "targets.u8", "examples.idx"):
            (self.path / name).unlink(missing_ok=True)
        writer = ExampleWriter(TokenWriter(str(out), self.tokenizer.get_vocab_size()), str(self.path))
        self.shapes = shapes_in([str(data)], text_key)
        given = str(self.path), [0], Manner(text_key, train_on, end_of_turn, "2026-11-26", special), self.shapes, None
        make_examples(lambda batches: map(Work(self.tokenizer, *given), batches), [str(data)], writer, lambda _: None)
        return self.marked()

    def marked(self):
        ids = array.array("H", (self.path / "tokens.tok").read_bytes()[1024:])
        trained = (self.path / "targets.u8").read_bytes()
        self.assertEqual(len(ids), len(trained))
        entries = list(struct.iter_unpack("<qii", (self.path / "examples.idx").read_bytes()))
        self.assertEqual(entries[-1], (len(ids), -1, -1))
        self.lines = [line for _, _, line in entries[:-1]]
        texts = []
        for (begin, _, _), (end, _, _) in zip(entries, entries[1:]):
            text = ""
            for on, run in itertools.groupby(range(begin, end), lambda k: trained[k]):
                words = self.tokenizer.decode([ids[k] for k in run], skip_special_tokens=False)
                text += f"[[{words}]]" if on else words
            texts.append(text)
        return texts

    def refused(self, template, *records, **options):
        with self.assertRaises(Problem) as caught:
            self.make(template, *records, **options)
        for name in ("tokens.tok", "targets.u8", "examples.idx"):
            self.assertEqual(list(self.path.glob(name + "*")), [])
        return str(caught.exception)

    def test_turns_and_their_ends_are_trained(self):
        cases = {
            "plain": (PLAIN, "<|user|>\n2 + 2?<|end|>\n<|assistant|>\n[[It is 4.<|end|>]]\n<|user|>\nSure?<|end|>\n<|assistant|>\n"
                             "[[ Yes.\n<|end|>]]\n"),
            "trims": (TRIMS, "<|user|>\n2 + 2?<|end|>\n<|assistant|>\n[[It is 4.<|end|>]]\n<|user|>\nSure?<|end|>\n<|assistant|>\n"
                             "[[Yes.<|end|>]]\n"),
            "begins": (FIRST_WORDS, "<|system|><|user|>\n2 + 2?<|end|>\n<|assistant|>\n[[It is 4.<|end|>]]\n<|user|>\nSure?<|end|>\n"
                                    "<|assistant|>\n[[Yes.<|end|>]]\n"),
            "ends": (ENDS_ALL, "<|user|>\n2 + 2?<|end|>\n<|assistant|>\n[[It is 4.<|end|>]]\n<|user|>\nSure?<|end|>\n<|assistant|>\n"
                               "[[ Yes.\n<|end|>]]\n<|end|>"),
            "white space before the end": (SPACED, "<|user|>\n2 + 2?\n<|end|>\n<|assistant|>\n[[It is 4.\n<|end|>]]\n<|user|>\nSure?\n"
                                                   "<|end|>\n<|assistant|>\n[[ Yes.\n\n<|end|>]]\n"),
            "generation": (GENERATION, "<|user|>\n2 + 2?<|end|>\n<|assistant|>\n[[It is 4.<|end|>\n]]<|user|>\nSure?<|end|>\n"
                                       "<|assistant|>\n[[ Yes.\n<|end|>\n]]"),
        }
        for name, (template, expected) in cases.items():
            with self.subTest(name):
                self.assertEqual(self.make(template, messages(*TWO)), [expected])

    def test_what_comes_before_the_content_is_the_models_own(self):
        turns = ("user", "a"), ("assistant", "<think>x</think>b"), ("user", "c"), ("assistant", "<think>y</think>d")
        self.assertEqual(self.make(FORGETS, messages(*turns)), [
            "<|user|>\na<|end|>\n<|assistant|>\n[[b<|end|>]]\n<|user|>\nc<|end|>\n<|assistant|>\n[[<think>y</think>d<|end|>]]\n"])

    def test_calls_of_tools(self):
        record = messages(("user", "rain?"), ("assistant", None), ("tool", "no"), ("assistant", "None."))
        record["messages"][1]["tool_calls"] = [{"type": "function", "function": {"name": "get", "arguments": {"at": "Ulm", "n": 1}}}]
        self.assertEqual(self.make(CALLS, record), [
            '<|user|>\nrain?<|end|>\n<|assistant|>\n[[<|call|>{"name": "get", "arguments": {"at": "Ulm", "n": 1}}\n<|call|><|end|>]]\n'
            "<|tool|>\nno<|end|>\n<|assistant|>\n[[None.<|end|>]]\n"])

    def test_calls_where_no_prompt_is_known(self):
        """As Mistral's: what begins a call is trained, too."""
        template = ("{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|system|>{% elif m.tool_calls %}<|call|>[{% for c in "
                    "m.tool_calls %}{{ c.function | tojson }}{% endfor %}]<|end|>{% elif m.role == 'tool' %}<|tool|>{{ m.content }}<|stop|>"
                    "{% else %} {{ m.content }}<|end|>{% endif %}{% endfor %}")
        record = messages(("user", "rain?"), ("assistant", ""), ("tool", "no"), ("assistant", "None."))
        record["messages"][1]["tool_calls"] = [{"type": "function", "function": {"name": "get", "arguments": {"n": 1}}}]
        call = '[[<|call|>[{"name": "get", "arguments": {"n": 1}}]<|end|>]]'
        self.assertEqual(self.make(template, record), [f"<|user|>rain?<|system|>{call}<|tool|>no<|stop|>[[ None.<|end|>]]"])
        self.assertEqual(self.make(template.replace("{% elif m.tool_calls %}", "{% elif m.tool_calls %}<|assistant|>").replace(
            "{% else %} ", "{% else %}<|assistant|>"), record), [
                f"<|user|>rain?<|system|><|assistant|>{call}<|tool|>no<|stop|><|assistant|>[[None.<|end|>]]"])

    def test_tokens_without_white_space(self):
        """As of BERT, whose offsets leave it out; and a space that joins the first word of what {% generation %} encloses."""
        tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[UNK]", "It", "is", "a", "user", "assistant"])},
                                               unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(WORDS)
        byte_level, self.tokenizer = self.tokenizer, tokenizer
        self.assertEqual(self.make(PLAIN, messages(("user", "a"), ("assistant", "It is"))), ["<|user|> a <|end|> <|assistant|>[[It is <|end|>]]"])
        self.tokenizer = byte_level
        told = "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}<|stop|>{% endif %}{% endfor %}"
        self.assertEqual(self.make(told, messages(("user", "a"), ("assistant", "is It"))), ["user: a<|stop|>assistant:[[ is It<|end|>]]"])

    def test_which_turns(self):
        last, both = "<|assistant|>\n[[ Yes.\n<|end|>]]\n", "[[It is 4.<|end|>]]"
        for template in (PLAIN, GENERATION):
            text, = self.make(template, messages(*TWO), train_on="last")
            self.assertNotIn(both, text)
            self.assertEqual(text.count("[["), 1)
        self.assertTrue(self.make(PLAIN, messages(*TWO), train_on="last")[0].endswith(last))
        record = messages(*TWO)
        record["messages"][3]["train"] = False
        text, = self.make(PLAIN, record)
        self.assertIn(both, text)
        self.assertEqual(text.count("[["), 1)
        text, = self.make(PLAIN, messages(*TWO), train_on="all")
        self.assertTrue(text.startswith("[[<|user|>") and text.endswith("\n]]"), text)
        self.assertIn("--train-on all", self.refused(PLAIN, record, train_on="all"))

    def test_a_turn_without_a_prompt_of_its_own_is_not_the_one_before(self):
        """As DeepSeek's, which write none behind a tool's answer."""
        template = ("{% for m in messages %}{% if m.role == 'assistant' %}{% if messages[loop.index0 - 1].role != 'tool' %}<|assistant|>"
                    "{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}<|call|>{{ c.function.name }}{% endfor %}<|end|>"
                    "{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
        record = messages(("user", "rain?"), ("assistant", None), ("tool", "no"), ("assistant", "None."))
        record["messages"][1]["tool_calls"] = [{"type": "function", "function": {"name": "get", "arguments": {}}}]
        before = "<|user|>rain?<|assistant|>"
        self.assertEqual(self.make(template, record), [before + "[[<|call|>get<|end|>]]<|tool|>no[[None.<|end|>]]"])
        self.assertEqual(self.make(template, record, train_on="last"), [before + "<|call|>get<|end|><|tool|>no[[None.<|end|>]]"])

    def test_a_space_before_a_turn_is_its_own(self):
        """Where no prompt is known: tokens join it to the first word."""
        template = "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|system|>{% else %} {{ m.content }}<|end|>{% endif %}{% endfor %}"
        self.assertEqual(self.make(template, messages(("user", "a"), ("assistant", "It is"))), ["<|user|>a<|system|>[[ It is<|end|>]]"])

    def test_other_shapes(self):
        self.assertEqual(self.make("", {"prompt": "2+2=", "completion": "4"}), ["2+2=[[4<|end|>]]"])
        self.assertEqual(self.make("", {"prompt": "\ufdd2", "completion": "4"})[0][-12:], "[[4<|end|>]]")
        asked = "<|user|>\nadd\n\n2 2<|end|>\n<|assistant|>\n[[4<|end|>]]\n"
        self.assertEqual(self.make(PLAIN, {"instruction": "add", "input": "2 2", "output": "4"}), [asked])
        self.assertEqual(self.shapes, ["instruction, input and output"])
        self.assertEqual(self.make(PLAIN, {"conversations": [{"from": "human", "value": "add\n\n2 2"}, {"from": "gpt", "value": "4"}]}), [asked])
        lists = {"prompt": [{"role": "user", "content": "add\n\n2 2"}], "completion": [{"role": "assistant", "content": "4"}]}
        self.assertEqual(self.make(PLAIN, lists), [asked])
        self.assertEqual(self.make(PLAIN, lists, train_on="all"), ["[[" + asked.replace("[[", "").replace("]]", "") + "]]"])
        self.assertEqual(self.make("", {"text": "a", "messages": 1}, text_key="text", raw='{"prompt": "a", "completion": "b"}\n\n'), ["a[[b<|end|>]]"])

    def test_a_blank_before_a_completion_joins_its_first_word(self):
        """Where offsets hold it, as those of Llama 2 and 3 do."""
        pair = {"prompt": "It ", "completion": "is four."}
        self.assertEqual(self.make("", pair), ["It[[ is four.<|end|>]]"])
        self.tokenizer = Tokenizer(models.WordLevel({END: 0, "▁It": 1, "▁is": 2, "▁four.": 3}))
        self.tokenizer.pre_tokenizer, self.tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        self.assertEqual(self.make("", pair), ["It[[is four.<|end|>]]"])

    def write_templates(self, **templates):
        named = [{"name": name, "template": text} for name, text in templates.items()]
        (self.path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "chat_template": named}))

    def test_a_template_for_tools_is_taken_where_there_are_some(self):
        """Each tells in its own way what is trained."""
        self.write_templates(default=PLAIN, tool_use="{{ tools | tojson }}" + GENERATION, rag="{% for %}")
        plain, with_tools = messages(*TWO[:2]), {**messages(*TWO[:2]), "tools": [{"name": "f"}]}
        text = "<|user|>\n2 + 2?<|end|>\n<|assistant|>\n[[It is 4.<|end|>"
        self.assertEqual(self.make(None, plain, with_tools), [text + "]]\n", '[{"name": "f"}]' + text + "\n]]"])
        self.write_templates(default="{{ tools | tojson }}" + PLAIN)
        self.assertEqual(self.make(None, with_tools), ['[{"name": "f"}]' + text + "]]\n"])

    def test_a_file_of_a_template_for_tools_is_not_read(self):
        other = self.path / "additional_chat_templates/tool_use.jinja"
        other.parent.mkdir()
        other.write_text(PLAIN)
        self.assertEqual(len(self.make(PLAIN, messages(*TWO))), 1)
        error = self.refused(PLAIN, messages(*TWO), {**messages(*TWO), "tools": [{"name": "f"}]})
        self.assertIn("additional_chat_templates/tool_use.jinja, which is for tools, is not read", error)
        self.assertIn("a.jsonl, line 2", error)

    def test_parts_of_contents(self):
        record = {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                               {"role": "assistant", "content": [{"type": "text", "text": "c"}]}]}
        expected = ["<|user|>\nab<|end|>\n<|assistant|>\n[[c<|end|>]]\n"]
        self.assertEqual(self.make(PARTS, record), expected)
        self.assertEqual(self.make(PLAIN, record), expected)
        record["messages"].pop()
        (self.path / "chat_template.jinja").write_text(PLAIN)
        reader = Reader(self.tokenizer, str(self.path), [], Manner("text", "assistant", "", "2026-11-26", "error"))
        self.assertEqual(reader.question(record), "<|user|>\nab<|end|>\n<|assistant|>\n")
        record["messages"][0]["content"][0]["type"] = "image"
        self.assertIn("no text", self.refused(PLAIN, record))

    def test_spelled_tokens(self):
        record = messages(("user", "a <|end|> b"), ("assistant", "no <|call|>"))
        self.assertIn("--special-in-content text", self.refused(PLAIN, record))
        text, = self.make(PLAIN, record, special="text")
        self.assertEqual(text, "<|user|>\na <|end|> b<|end|>\n<|assistant|>\n[[no <|call|><|end|>]]\n")
        ids = array.array("H", (self.path / "tokens.tok").read_bytes()[1024:]).tolist()
        self.assertEqual(ids.count(0), 2)  # of the template
        tools = {**messages(*TWO), "tools": [{"name": "<|call|>"}]}
        self.assertIn("spells the special token <|call|>", self.refused(PLAIN, tools))
        keys = {**messages(*TWO[:2]), "tools": [{"a": {"<|call|>": 1}}]}
        self.assertIn("spells the special token <|call|>", self.refused(PLAIN, keys))
        text, = self.make("{{ tools | tojson }}" + PLAIN, keys, special="text")
        self.assertIn('{"<|call|>": 1}', text)
        ids += array.array("H", (self.path / "tokens.tok").read_bytes()[1024:]).tolist()
        self.assertNotIn(WORDS.index("<|call|>"), ids)

    def test_spelled_tokens_may_end_one_another(self):
        self.tokenizer.add_special_tokens(["end|>"])
        text, = self.make(PLAIN, messages(("user", "a <|end|> b"), ("assistant", "c end|>")), special="text")
        self.assertEqual(text, "<|user|>\na <|end|> b<|end|>\n<|assistant|>\n[[c end|><|end|>]]\n")
        ids = array.array("H", (self.path / "tokens.tok").read_bytes()[1024:]).tolist()
        self.assertEqual(ids.count(0), 2)  # of the template
        self.assertNotIn(self.tokenizer.token_to_id("end|>"), ids)

    def test_what_the_model_said_is_taken_as_it_is(self):
        (self.path / "chat_template.jinja").write_text(PLAIN)
        reader = Reader(self.tokenizer, str(self.path), [], Manner("text", "assistant", "", "2026-11-26", "error"))
        said = messages(("user", "a"), ("assistant", ""), ("user", "b"), ("assistant", "It <|end|>"), ("user", "c"))
        text = reader.question(said)
        self.assertEqual(text.count(END), 5)  # of the template
        self.assertEqual(text.replace(GUARD, "").count(END), 6)
        with self.assertRaises(Wrong):
            reader.question(messages(("user", "a <|end|>")))

    def test_a_text_that_cannot_be_encoded_is_told_by_line(self):
        self.tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        good, wrong = {"prompt": "a ", "completion": "b"}, {"prompt": "a ", "completion": "c"}
        error = self.refused("", good, wrong, good)
        self.assertIn("the tokenizer cannot encode this text", error)
        self.assertIn("a.jsonl, line 2", error)

    def test_the_day_is_the_one_that_was_given(self):
        self.assertTrue(self.make(DATED, messages(*TWO))[0].startswith("26 November 2026<|user|>"))

    def test_ends_of_turns_that_are_told(self):
        self.assertIn("no token ends", self.refused(NO_END, messages(*TWO)))
        self.assertIn("no token <no>", self.refused(PLAIN, messages(*TWO), end_of_turn="<no>"))
        self.assertIn("does not end in <|call|>", self.refused(PLAIN, messages(*TWO), end_of_turn="<|call|>"))
        self.assertIn("[[It is 4.<|end|>]]", self.make(PLAIN, messages(*TWO), end_of_turn=END)[0])

    def test_wrong_lines(self):
        good, nobody = messages(*TWO), messages(("user", "a"))
        cases = {
            "nothing to learn": (PLAIN, [good, nobody]), "is empty": (PLAIN, [good, messages(("user", ""), ("assistant", "a"))]),
            "message 1 has no role": (PLAIN, [good, {"messages": [{"content": "a"}]}]), "no messages": (PLAIN, [good, {"messages": []}]),
            "has no messages, which the first line has": (PLAIN, [good, {"text": "a"}]),
            "refuses it: no pirate": (REFUSES, [good, messages(("pirate", "a"), ("assistant", "b"))]),
            'does not know the role "pirate"': (KNOWS_TWO, [good, messages(("pirate", "ahoy!"), ("assistant", "b"))]),
            "half of a surrogate pair": (PLAIN, [good, messages(("user", "\ud800"), ("assistant", "b"))]),
            "from U+FDD0": (PLAIN, [good, messages(("user", "\ufdd2"), ("assistant", "b"))]),
            "train of message 2 is 'false'": (PLAIN, [good, {"messages": [TRAINED[0], {**TRAINED[1], "train": "false"}]}]),
            "encloses nothing": (GENERATION.replace("== 'assistant'", "== 'model'"), [good]),
            "no text as content": (PLAIN, [good, messages(("user", "a"), ("assistant", None))]),
            "{% generation %}": (SHOUTS, [good]),
        }
        for told, (template, records) in cases.items():
            with self.subTest(told):
                error = self.refused(template, *records)
                self.assertIn(told, error)
                self.assertIn(f"a.jsonl, line {len(records)}", error)
        self.assertIn("2 lines", self.refused(PLAIN, good, nobody, good, nobody))
        self.assertIn("no chat template", self.without_template())
        self.assertIn("the chat template is none", self.refused("{% for %}", good))

    def without_template(self):
        (self.path / "chat_template.jinja").unlink()
        (self.path / "a.jsonl").write_text(json.dumps(messages(*TWO)))
        with self.assertRaises(Problem) as caught:
            ChatTemplate(str(self.path), datetime.now())
        return str(caught.exception)

    def test_files_of_texts_alone_are_no_examples(self):
        for text, expected in (('{"text": "a"}\n', False), ('{"messages": []}\n', True), ('{"prompt": "a", "completion": "b"}', True)):
            path = self.path / "b.jsonl"
            path.write_text(text)
            self.assertEqual(are_examples([str(path)], "text"), expected)
        (self.path / "b.txt").write_text("messages")
        self.assertFalse(are_examples([str(self.path / "b.txt")], "text"))

    def test_a_template_is_kept_in_its_place(self):
        for attack in ("{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{% set n = namespace(_x=1) %}", "{{ dict.__init__ }}"):
            with self.subTest(attack):
                self.assertIn("refuses it" if "init" not in attack else "", self.refused(attack + NO_END, messages(*TWO)))

    def test_texts_and_what_is_trained_are_those_of_transformers(self):
        """By tests/references/chat_templates.json: templates that tell nothing, and the same with {% generation %}."""
        for name, case in json.loads((ROOT / "tests/references/chat_templates.json").read_text()).items():
            for conversation in case["conversations"]:
                text, expected, at = conversation["text"], "", 0
                for begin, end in conversation["spans"]:
                    expected += text[at:begin] + "[[" + text[begin:end] + "]]"
                    at = end
                record = {key: value for key, value in conversation.items() if key in ("messages", "tools")}
                for told in ("template", "generation"):
                    with self.subTest(name, told=told):
                        self.assertEqual(self.make(case[told], record), [expected + text[at:]])


if __name__ == "__main__":
    unittest.main()
