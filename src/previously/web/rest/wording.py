"""Words of the settings form, in both languages. What a setting does in English stands with it."""

from __future__ import annotations

from typing import NamedTuple

CONTEXT, SECOND_LLM, AUTO, OTHER = "context", "second_llm", "auto", "other"

GROUPS = {
    CONTEXT: {"zh": "上下文管理", "en": "Context management"},
    AUTO: {"zh": "自动总结", "en": "Automatic summaries"},
    SECOND_LLM: {"zh": "次级LLM API", "en": "Second LLM API"},
    OTHER: {"zh": "其他", "en": "Other"},
}


class FieldWords(NamedTuple):
    """How a form names one setting."""

    group: str
    title_zh: str
    title_en: str
    help_zh: str


FIELDS = {
    "budget_tokens": FieldWords(
        CONTEXT, "提示词上限", "Prompt budget", "拼出的提示词最多多少 token"
    ),
    "visible_floors": FieldWords(
        CONTEXT, "显示楼层数", "Visible floors", "最新的多少楼始终原文保留（低水位）"
    ),
    "fold_every": FieldWords(
        CONTEXT, "折叠间隔", "Fold every", "近文超过显示楼层多少条后折叠一次；1 为每回合滑动"
    ),
    "enabled": FieldWords(CONTEXT, "启用摘要", "Use summaries", "允许用摘要代替旧消息"),
    "related": FieldWords(
        CONTEXT, "回忆片段", "Recall old lines", "引用最新一回合唤起的旧消息原文"
    ),
    "retry_on_overflow": FieldWords(
        CONTEXT, "超限重试", "Retry on overflow", "模型窗口太小时少发一些再试"
    ),
    "auto_mini_summary": FieldWords(
        AUTO, "自动小总结", "Automatic minis", "在后台为每个回合写小总结"
    ),
    "auto_volume_summary": FieldWords(
        AUTO, "自动大总结", "Automatic volumes", "在后台把小总结归档成卷"
    ),
    "check_interval": FieldWords(
        AUTO, "检查间隔", "Check interval", "每隔多少条小总结看一次这一卷是否写完"
    ),
    "volume_token_threshold": FieldWords(
        AUTO, "Token 阈值", "Token threshold", "小总结累计到多少 token 就自动成卷"
    ),
    "max_unarchived_minis": FieldWords(
        AUTO, "未归档小总结上限", "Unarchived minis", "最多允许多少条小总结未归档"
    ),
    "mini_tokens": FieldWords(AUTO, "小总结长度", "Size of a mini", "一条小总结最多多少 token"),
    "minis_per_call": FieldWords(
        AUTO, "合并请求", "Minis per call", "来不及写时，一次请求最多写多少条小总结"
    ),
    "volume_tokens": FieldWords(AUTO, "卷长度", "Size of a volume", "一卷最多多少 token"),
    "era_tokens": FieldWords(
        AUTO, "篇长度", "Size above volumes", "由卷合成的更大摘要最多多少 token"
    ),
    "language": FieldWords(AUTO, "语言", "Language", "摘要与标签的语言"),
    "mini_prompt": FieldWords(AUTO, "小总结提示词", "Words that ask for a mini", "留空用内置的"),
    "volume_prompt": FieldWords(
        AUTO, "大总结提示词", "Words that ask for a volume", "留空用内置的"
    ),
    "capture_start_tag": FieldWords(
        AUTO, "内容捕获标签：开始", "Capture: start tag", "只总结消息里此标签之后的内容；空为全部"
    ),
    "capture_end_tag": FieldWords(
        AUTO, "内容捕获标签：结束", "Capture: end tag", "只总结到此标签为止；空为到消息结尾"
    ),
    "message_cleanup_regex": FieldWords(
        AUTO, "正则列表", "Clean-up rules", "总结之前在消息里替换的内容，按 JavaScript 正则依次执行"
    ),
    "history_page_size": FieldWords(
        OTHER, "历史每页楼层", "Floors on a page", "历史记录每页显示多少楼"
    ),
    "summary_profile": FieldWords(
        CONTEXT, "摘要 API 档案", "Summary profile", "写摘要的模型；留空用 main，否则摘录原文"
    ),
    "fallback_to_main": FieldWords(
        SECOND_LLM, "失败时改用 main", "Fall back to main", "摘要档案答不出时改问 main"
    ),
    "max_latency_ms": FieldWords(
        SECOND_LLM, "最长等待（毫秒）", "Longest wait (ms)", "一次回答最多等多久；0 按档案"
    ),
    "monthly_budget_usd": FieldWords(
        SECOND_LLM, "每月预算（美元）", "Monthly budget (USD)", "摘要每月最多花多少美元"
    ),
    "time_zone": FieldWords(SECOND_LLM, "时区", "Time zone", "按哪个时区算一个月的开始"),
}


def field_words(name: str, help_en: str) -> FieldWords:
    """A setting that has no words yet is still shown, with its English help."""
    plain = name.replace("_", " ")
    return FIELDS.get(name) or FieldWords(OTHER, plain, plain.capitalize(), help_en)
