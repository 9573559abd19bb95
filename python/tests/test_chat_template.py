# SPDX-License-Identifier: Apache-2.0
"""What the text of a model may make `anyop generate` do: render a prompt, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyop
import pytest
from anyop.cli import chat_template
from anyop.cli.generate import Text, run

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


def model(folder: Path, **metadata: Any) -> Path:
    """As much of a saved model as prompts need."""
    folder.mkdir(exist_ok=True)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, []))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    manifest = {"metadata": {"tokenizer": "tokenizer.json", **metadata}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_template_is_rendered(tmp_path: Path) -> None:
    text = Text(model(tmp_path, chat_template=CHAT)).chat("Why é?")
    assert text == "<|im_start|>user\nWhy é?<|im_end|>\n<|im_start|>assistant\n"
    assert Text(model(tmp_path)).chat("Why?") == "Why?"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ cycler.__init__.__globals__.os.popen(cmd).read() }}", "to attribute '__init__'"),
        ("{{ messages.append(cmd) }}", "access to attribute 'append'"),
        ("{{ ''['__cl' ~ 'ass__'].__mro__ }}", "access to attribute '__class__'"),
        ("{% include '/etc/hostname' %}", "no loader for this environment"),
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
        ("{{ 'x' * 10**10 }}", "takes more than 1024 MiB of memory"),
        ("{{ 1 / 0 }}", "is wrong (ZeroDivisionError: division by zero)"),
        ("{{", "is refused: unexpected 'end of template'"),
        ("{% for i in range(9**5) %}{{ 'x' * 99 }}{% endfor %}", "more than 4194304 characters"),
        ("x" * 70000, "is 70000 characters long, but at most 65536 are taken"),
        (["x"], "is ['x'], but must be text"),
    ],
)
def test_a_template_does_nothing_else(tmp_path: Path, template: Any, why: str) -> None:
    mark = tmp_path / "mark"
    if isinstance(template, str):
        template = template.replace("cmd", f"'touch {mark}'")
    folder = model(tmp_path / "model", chat_template=template)
    with pytest.raises(anyop.InvalidArgument) as caught:
        Text(folder).chat("x")
    assert str(caught.value).startswith(f"generate: the chat template of {folder} ")
    assert why in str(caught.value)
    assert str(caught.value).endswith(" Try --raw.")
    assert not mark.exists()


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ (10**9) ** (10**9) }}",
    ],
)
def test_a_template_ends(template: str) -> None:
    with pytest.raises(chat_template.TemplateError, match="takes more than 3 seconds of computing"):
        chat_template.render(template, "x")


@pytest.mark.parametrize("name", ["../tokenizer.json", "/etc/hostname", "link", ".", 3, None])
def test_a_tokenizer_is_in_the_folder(tmp_path: Path, name: Any) -> None:
    folder = model(tmp_path / "model", tokenizer=name)
    (tmp_path / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    (folder / "link").symlink_to("../tokenizer.json")
    with pytest.raises(anyop.InvalidArgument) as caught:
        Text(folder)
    assert str(caught.value) == (
        f"generate: the tokenizer of {folder} is {name!r}, but must be a file in that folder. "
        "Save the model again."
    )


def test_errors_of_the_program_name_any_path(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with pytest.raises(anyop.InvalidArgument, match="is no saved graph"):
        list(run(folder, [1], []))
