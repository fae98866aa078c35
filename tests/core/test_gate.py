"""What is a summary and what is not, zh and en, in one table."""

from __future__ import annotations

import pytest

from previously.errors import DraftRejected
from previously.model import EXTRACTIVE, Accepted, Line, Part, Reply
from previously.prompts import texts
from previously.text.answer import (
    CUT,
    CUT_TO_SIZE,
    cleaned,
    cut_to_size,
    is_long,
    judge,
    losses,
    whole_sentences,
)
from previously.text.lines import line_tokens

EN = (
    ("Mira", '"I hid 17 silver coins under the third stair," she whispers. "Tell nobody."'),
    (
        "Jonas",
        "I promise to keep it secret until the 4th of May. Where does your brother live now?",
    ),
    ("Mira", "In the lighthouse at Vell. He must never learn of the letter you found yesterday."),
)
ZH = (
    ("白娅", "“我把十七枚银币藏在第三级台阶下面，”她低声说，“谁也别告诉。”"),
    ("林川", "我答应你，到5月4日之前绝不说出去。你哥哥现在住在哪里？"),
    ("白娅", "在维尔的灯塔里。昨天你找到的那封信，绝不能让他知道。"),
)
NOTE_EN = (
    "Mira hid 17 silver coins under the third stair; Jonas promised to tell nobody until 4 May."
)
NOTE_ZH = "白娅把十七枚银币藏在第三级台阶下，林川答应5月4日之前绝不说出去。"


def part(material: tuple[tuple[str, str], ...] = EN, tokens_max: int = 40) -> Part:
    lines = (
        Line(n, n, who, what, line_tokens(who, what)) for n, (who, what) in enumerate(material)
    )
    return Part(tokens_max, tuple(lines))


def read(answer: str, material: tuple[tuple[str, str], ...]) -> Accepted:
    ours = texts("zh" if material is ZH else "en").mini.system
    return judge(part(material), Reply(answer, "m"), last=False, instructions=ours)


CLEANED = [
    (NOTE_EN, NOTE_EN),
    (f"  {NOTE_EN}\n", NOTE_EN),
    (f"<think>What matters here?\n\nThe coins.</think>\n{NOTE_EN}", NOTE_EN),
    (f"<thinking>hm</thinking>{NOTE_EN}", NOTE_EN),
    (f"<reasoning effort='low'>hm</reasoning>\n\n{NOTE_EN}", NOTE_EN),
    (f"{NOTE_EN}\n<think>Is that all?</think>", NOTE_EN),
    (f"{NOTE_EN}\n<think>Is that all? Perhaps I", NOTE_EN),
    (f"The user wants a note. Coins, promise.</think>\n{NOTE_EN}", NOTE_EN),
    (f"Thought: the coins matter most.\nThe promise too.\n\nSummary: {NOTE_EN}", NOTE_EN),
    (f"思考过程：银币最重要。\n\n摘要：{NOTE_ZH}", NOTE_ZH),
    (f"```\n{NOTE_EN}\n```", NOTE_EN),
    (f"```text\n{NOTE_EN}\n```", NOTE_EN),
    (f'"{NOTE_EN}"', NOTE_EN),
    (f"“{NOTE_ZH}”", NOTE_ZH),
    (f"「{NOTE_ZH}」", NOTE_ZH),
    (f"Summary: {NOTE_EN}", NOTE_EN),
    (f"**Summary:** {NOTE_EN}", NOTE_EN),
    (f"## Summary\n\n{NOTE_EN}", NOTE_EN),
    (f"Note: {NOTE_EN}", NOTE_EN),
    (f"摘要：{NOTE_ZH}", NOTE_ZH),
    (f"【摘要】\n{NOTE_ZH}", NOTE_ZH),
    (f"**总结**：{NOTE_ZH}", NOTE_ZH),
    (f"Here is the summary: {NOTE_EN}", NOTE_EN),
    (f"Sure, here's a concise note of the exchange:\n\n{NOTE_EN}", NOTE_EN),
    (f"以下是本轮对话的记录：\n{NOTE_ZH}", NOTE_ZH),
    (f"好的，以下是摘要：{NOTE_ZH}", NOTE_ZH),
    (f"Here is the summary:\n```\nSummary: {NOTE_EN}\n```", NOTE_EN),
    # What only looks like wrapping stays.
    ('"Tell nobody," said Mira, and Jonas answered "never".',) * 2,
    ("Notes were passed: Mira gave Jonas 17 coins.",) * 2,
    ("Mira kept three things: coins, a letter, a secret.",) * 2,
    ("总结大会定在5月4日，林川会去。",) * 2,
    ("Thought to be lost: the letter. Mira found it.",) * 2,
]


@pytest.mark.proves("G-66")
@pytest.mark.parametrize(("answer", "clean"), CLEANED)
def test_what_models_put_around_a_summary_is_taken_off(answer: str, clean: str):
    assert cleaned(answer) == clean


GOOD = [
    (EN, NOTE_EN),
    (ZH, NOTE_ZH),
    (EN, "Jonas refused: he told Mira “I'm sorry, but I can't help you with the letter”."),
    (EN, "The assistant declined to summarise the letter and said it could not help with that."),
    (ZH, "林川拒绝了，说“抱歉，我无法帮你藏信”，白娅因此生气。"),
    (ZH, "抱歉的是林川：他不能在5月4日之前说出去，这让他为难。"),
    (EN, "Mira: hid 17 coins under the stair. Jonas: promised silence until the 4th of May."),
    (EN, "“The Lighthouse at Vell” is where Mira's brother lives; he must not see the letter."),
    (EN, "Open question: where does Mira's brother live, and does he know of the letter?"),
    (EN, "Mira hid 17 coins. Jonas asked her: where do you keep the letter?"),
    (ZH, "白娅藏了银币。林川问：你哥哥现在住在哪里？"),
    (EN, "Nothing was decided; Mira hid 17 coins."),
    (EN, "As an AI engineer, Jonas promised to keep Mira's 17 coins secret."),
    (EN, "Unfortunately for Jonas, he cannot tell anyone about the 17 coins."),
    (EN, "Of course Jonas agreed to keep the secret until 4 May."),
    ((("user", "{{NEW_HISTORY}} is what I typed, twice over, and nothing happened."),),
     "The user typed {{NEW_HISTORY}} and nothing happened."),
    # Tiny material may be answered with a few words more than it has.
    ((("user", "Hi."), ("assistant", "Hello!")), "The user and the assistant greeted each other."),
    # A copy that has the size asked for does no harm.
    ((("user", "The code is 4711."),), "user: The code is 4711."),
]  # fmt: skip


@pytest.mark.proves("G-66")
@pytest.mark.parametrize(("material", "answer"), GOOD)
def test_a_summary_is_accepted_as_it_stands(material: tuple[tuple[str, str], ...], answer: str):
    assert read(answer, material).text == answer


LEAK = "Leave out greetings, repetition and description without consequence."
LEAK_ZH = "省去寒暄、重复和没有后果的描写。"
BAD = [
    (EN, "", "empty"),
    (EN, " \n\u3000", "empty"),
    (EN, "…", "only punctuation"),
    (ZH, "。。。", "only punctuation"),
    (EN, "---\n***", "only punctuation"),
    (EN, "<think>They want a note, so", "only reasoning or marks"),
    (EN, "<think>done</think>", "only reasoning or marks"),
    (EN, "```\n```", "only reasoning or marks"),
    (EN, "I'm sorry, but I can't help with that.", "refusal"),
    (EN, "I’m really sorry, but I cannot summarise this conversation.", "refusal"),
    (EN, "Sorry, I can't assist with that request.", "refusal"),
    (EN, "I cannot create content that involves secrets.", "refusal"),
    (EN, "I must decline to summarise this material.", "refusal"),
    (EN, "As an AI language model, I do not have access to this conversation.", "refusal"),
    (EN, "I'm unable to continue with this request.", "refusal"),
    (EN, "This content violates my guidelines.", "refusal"),
    (ZH, "抱歉，我无法协助完成这个请求。", "refusal"),
    (ZH, "对不起，我不能总结这段内容。", "refusal"),
    (ZH, "很抱歉，但我无法继续这个话题。", "refusal"),
    (ZH, "作为一个AI语言模型，我没有感情。", "refusal"),
    (ZH, "我无法提供这段对话的总结。", "refusal"),
    (EN, 'Jonas: "Then we leave at dawn," he grins, reaching for his coat.', "continues the scene"),
    (EN, "*The door creaks open and a stranger steps into the hall, dripping.*", "continues"),
    (EN, "“I will never leave you here alone, my dear,” and the lamp goes out.", "continues"),
    (ZH, "林川：“那我们天一亮就出发吧。”他笑着伸手去拿外套。", "continues the scene"),
    (ZH, "「我不会丢下你一个人的。」灯熄灭了，远处传来脚步声。", "continues the scene"),
    (EN, "The wind rises over the harbour. What do you want to do next?", "question to the reader"),
    (ZH, "海风越来越大，远处的船鸣了一声笛。接下来你打算怎么做？", "question to the reader"),
    (EN, "Sure! I can walk you through hiding a letter. First, choose a dry place.", "replies to"),
    (ZH, "好的，我来帮你写一封给哥哥的信，先从问候开始。", "replies to"),
    (ZH, "（总结生成中...）", "placeholder"),
    (EN, "{{NEW_HISTORY}}", "placeholder"),
    (EN, "(nothing yet)", "nothing"),
    (ZH, "（暂无）", "nothing"),
    (EN, f"=== 0123456789ab ===\n{NOTE_EN}\n=== 0123456789ab ===", "marks around the material"),
    (EN, f"{LEAK} {NOTE_EN}", "repeats the instructions"),
    (ZH, f"{LEAK_ZH}{NOTE_ZH}", "repeats the instructions"),
    (EN, "Mira spoke of coins and stairs and letters and lamps. " * 20, "longer than its material"),
    (EN, "\n".join(f"{who}: {what}" for who, what in EN), "word for word"),
    (ZH, "\n".join(f"{who}：{what}" for who, what in ZH), "word for word"),
]


@pytest.mark.proves("G-66")
@pytest.mark.parametrize(("material", "answer", "reason"), BAD)
def test_what_is_no_summary_is_refused_in_words(
    material: tuple[tuple[str, str], ...], answer: str, reason: str
):
    with pytest.raises(DraftRejected, match=reason):
        read(answer, material)


def test_the_table_is_long_enough():
    assert len(CLEANED) + len(GOOD) + len(BAD) >= 60


@pytest.mark.proves("G-66")
def test_an_answer_that_was_cut_off_is_asked_for_again_and_then_ends_at_a_sentence():
    half = Reply(f"{NOTE_EN} Mira's brother lives in the", "m", finish="length")
    with pytest.raises(DraftRejected, match="cut off"):
        judge(part(), half, last=False)
    assert judge(part(), half, last=True) == Accepted(
        NOTE_EN, read(NOTE_EN, EN).tokens, flags=(CUT,)
    )
    with pytest.raises(DraftRejected, match="within its first sentence"):
        judge(part(), Reply("Mira hid", "m", finish="length"), last=True)
    with pytest.raises(DraftRejected, match="filter"):
        judge(part(), Reply(NOTE_EN, "m", finish="content_filter"), last=True)


def test_an_extract_may_look_like_the_scene_it_is_taken_from():
    quoted = 'Mira: "I hid 17 silver coins under the third stair," she whispers.'
    assert judge(part(), Reply(quoted, EXTRACTIVE), last=False).text == quoted
    with pytest.raises(DraftRejected):
        judge(part(), Reply("", EXTRACTIVE), last=False)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("One. Two. Thr", "One. Two."),
        ("第一句。第二句！第三", "第一句。第二句！"),
        ("He said “go.” Then", "He said “go.”"),
        ("It costs 3.14 and", ""),
        ("Whole.", "Whole."),
        ("", ""),
    ],
)
def test_a_text_ends_at_its_last_full_sentence(text: str, whole: str):
    assert whole_sentences(text) == whole


@pytest.mark.proves("G-55")
def test_a_summary_that_stays_too_long_is_cut_at_a_sentence_and_flagged():
    long = Accepted("Mira kept the seventeen coins. " * 40, 240)
    assert is_long(long, 100)
    assert not is_long(Accepted("x", 150), 100)
    assert not is_long(Accepted("x", 60), 8)  # few words are never too many
    short = cut_to_size(long, 100)
    assert short.text.endswith("coins.")
    assert short.tokens <= 150
    assert short.flags == (CUT_TO_SIZE,)
    assert cut_to_size(Accepted("word " * 400, 400), 100).tokens <= 150


def test_numbers_and_names_that_vanish_are_flagged():
    said = (("Mira", "Meet Jonas at pier 42 on 2024-05-04, and tell Jonas of the 17 coins."),)
    assert losses(said, "Mira meets Jonas at pier 42 on 2024-05-04 about the 17 coins.") == ()
    assert losses(said, "They meet at pier 42.") == (
        "lost numbers: 2024-05-04, 17",
        "lost names: Mira, Jonas",
    )
    assert (
        losses((("user", "one or 2"),), "nothing") == ()
    )  # a role is no name, one digit says little
    many = (("user", " ".join(str(n) for n in range(100, 120))),)
    assert losses(many, "none")[0].endswith("107 and 12 more")
