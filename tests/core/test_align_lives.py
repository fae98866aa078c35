"""Lives of clients in which something was lost or taken in once, cut down to what it takes.

Each is a row of a client's doings; `Life` itself holds what is stored against what the client has.
"""

from __future__ import annotations

from tests.core.test_align_life import Life

LONG = "a lantern the harbour café café Anna"
SAID = "the harbour café rain 好的"


def begun(*texts: str, older: int = 0, window: int | None = None) -> Life:
    life = Life()
    life.start(texts=list(texts), older=older, window=window, streams=False)
    return life


def narrated(life: Life, count: int) -> None:
    for _ in range(count):
        life.tell()


def said(life: Life, *texts: str) -> None:
    for text in texts:
        life.send(text=text, clean="")


def test_an_instruction_that_moves_among_a_narrators_lines_does_not_rest() -> None:
    life = begun("gulls")
    life.inject(role="user", depth=5, text="rain")
    narrated(life, 4)
    said(life, "a lantern", "Anna 好的 嗯。", "嗯。 gulls the harbour")


def test_what_it_stood_among_is_known_after_a_restart() -> None:
    for role, depth in (("assistant", 2), ("user", 3)):
        life = begun("the harbour the harbour 好的")
        narrated(life, depth - 1)
        life.inject(role=role, depth=depth, text="rain")
        life.restart()
        said(life, "rain")


def test_what_was_taken_back_in_doubt_is_taken_out_when_the_story_has_gone_on() -> None:
    life = begun("café 好的 gulls", "嗯。 a lantern gulls", "Anna 好的 a lantern", older=1)
    life.inject(role="user", depth=0, text="rain")
    life.delete_middle(back=2)
    life.delete_middle(back=4)
    life.swipe(told=False)
    life.show_more_or_less(window=6)
    life.delete_middle(back=2)
    life.swipe(told=False)
    said(life, "a lantern the harbour 好的", "gulls 嗯。 the harbour rain")


def test_a_reply_that_is_to_grow_is_counted_alike_whether_a_sentence_asks_for_it() -> None:
    life = begun("a lantern the harbour gulls", older=1, window=6)
    life.inject(role="user", depth=5, text="rain")
    life.go_on(nudged=True, text="rain")
    life.go_on(nudged=False, text="rain")


def test_so_it_is_by_two_servers() -> None:
    life = begun("好的 gulls gulls café")
    life.ask_another_server()
    life.inject(role="user", depth=2, text="rain")
    life.ask_another_server()
    life.go_on(nudged=True, text="rain")
    life.go_on(nudged=False, text="rain")


def test_the_last_reply_alone_is_enough_where_a_narrator_has_filled_the_window() -> None:
    life = begun("好的 café rain", window=6)
    said(life, "嗯。 the harbour 好的", "嗯。 a lantern 嗯。")
    narrated(life, 4)
    said(life, "嗯。 the harbour 好的", "café Anna", "嗯。 a lantern 嗯。", "嗯。 rain", "café")


def test_so_is_the_last_turn_in_the_clients_words() -> None:
    life = begun("rain 嗯。 嗯。 Anna", "嗯。 嗯。", "a lantern rain a lantern")
    life.show_more_or_less(window=10)
    life.send(text="rain", clean="cut")
    narrated(life, 7)
    said(life, "Anna", "a lantern rain a lantern", "Anna gulls", "好的 the harbour", "gulls")


def test_a_question_behind_another_reply_is_asked_again() -> None:
    life = begun("gulls", "gulls", window=6)
    said(life, SAID, SAID)
    narrated(life, 4)
    said(life, SAID, "gulls", SAID, "Anna", "gulls")


def test_of_questions_that_say_the_same_the_last_stay_in_a_window() -> None:
    life = begun("a lantern", window=6)
    life.inject(role="assistant", depth=2, text=LONG)
    narrated(life, 2)
    said(life, LONG, LONG, LONG, "Anna café gulls the harbour", "好的")


def test_what_stays_in_front_while_the_window_moves_is_an_instruction() -> None:
    life = begun("a lantern 好的", window=5)
    life.inject(role="user", depth=5, text="rain")
    life.tell()
    life.inject(role="user", depth=0, text="rain")
    said(life, "a lantern Anna a lantern", "好的 the harbour gulls", "gulls", "gulls rain Anna")


def test_what_a_user_always_says_is_no_instruction_because_he_took_it_back_once() -> None:
    life = begun("café gulls 好的 the harbour", older=1)
    said(life, "嗯。")
    life.hide(back=2)
    said(life, "嗯。", "嗯。", "rain", "rain", "rain")


def test_a_message_is_no_longer_ones_beginning_if_it_is_another_one_whole() -> None:
    life = begun("Anna rain", window=5)
    life.inject(role="user", depth=4, text="Anna a lantern")
    said(life, "Anna a lantern a lantern 嗯。 嗯。", "Anna a lantern", "rain", "rain")


def test_the_last_reply_cut_short_is_that_reply_wherever_an_instruction_stands() -> None:
    life = begun("the harbour the harbour café gulls", older=1)
    life.send(text="rain", clean="cut")
    narrated(life, 2)
    life.inject(role="assistant", depth=2, text="rain")
    life.delete_last(count=1)
    life.delete_last(count=3)
    said(life, "gulls gulls café")


def test_less_than_a_turn_puts_nothing_between_stored_messages() -> None:
    life = begun("rain", older=1)
    life.tell()
    life.inject(role="assistant", depth=3, text="rain")
    life.inject(role="user", depth=4, text="rain")
    life.hide(back=5)
    life.hide(back=2)
    said(life, "rain")


def test_nor_does_a_turn_if_as_many_of_a_narrators_lines_are_gone() -> None:
    life = begun("Anna", older=1)
    narrated(life, 2)
    life.inject(role="user", depth=4, text="rain")
    life.delete_middle(back=3)
    life.hide(back=3)
    said(life, "café rain 嗯。 gulls 好的")


def test_a_hidden_message_is_not_shown_again_by_another_that_says_the_same() -> None:
    twice = "好的 rain rain a lantern"
    life = begun("好的", window=8)
    said(life, twice, "rain", twice)
    life.inject(role="system", depth=0, text="rain")
    life.delete_last(count=4)
    life.delete_last(count=3)
    said(life, "rain", "rain", "rain", twice)


def test_a_fork_that_says_again_what_was_said_there_is_read() -> None:
    life = begun("a lantern café gulls", "嗯。", "嗯。 gulls rain", "嗯。")
    said(life, "gulls café café", "the harbour the harbour", "a lantern the harbour 好的")
    life.delete_last(count=2)
    life.delete_last(count=5)
    said(life, "gulls café café", "gulls café café")
    life.show_more_or_less(window=12)
    said(life, "Anna rain gulls", "嗯。 gulls rain", "café café", "嗯。 a lantern", "a lantern")


def test_an_edit_beside_an_instruction_does_not_make_it_stay() -> None:
    life = begun("Anna 嗯。 gulls", "rain 嗯。", older=1)
    life.inject(role="user", depth=5, text="rain")
    life.edit(text="rain", back=3)
    life.swipe(told=False)
    life.edit(text="rain", back=4)
    said(life, "gulls Anna a lantern gulls", "rain a lantern the harbour")


def test_what_another_server_has_seen_is_asked_before_a_question_is_other_words() -> None:
    life = begun("café the harbour café café", older=1)
    life.ask_another_server()
    life.inject(role="user", depth=2, text="rain")
    life.ask_another_server()
    life.delete_middle(back=2)
    said(life, "gulls")


def test_a_few_words_are_not_what_is_left_of_others() -> None:
    life = begun("rain rain", "the harbour Anna", older=2)
    life.delete_last(count=1)
    life.delete_last(count=4)
    life.send(text="rain", clean="prefix")
    life.send(text="the harbour Anna", clean="prefix")
    said(life, "rain rain")


def test_the_same_words_under_another_name_are_where_their_neighbours_are() -> None:
    life = begun("the harbour the harbour a lantern", window=6)
    said(life, "gulls rain gulls 嗯。")
    narrated(life, 2)
    said(life, "gulls rain gulls 嗯。")
    life.dress(names=True, merges=False)
    said(life, "rain")
    life.dress(names=False, merges=False)
    said(life, "rain")


def test_the_last_turn_is_not_asked_again_because_an_instruction_stands_before_it() -> None:
    life = begun("嗯。", window=7)
    life.tell()
    life.send(text="rain", clean="prefix")
    life.inject(role="assistant", depth=3, text="rain")
    said(life, "Anna 嗯。 好的 rain", "rain", "rain café")
    life.tell()
    life.send(text="好的 嗯。 嗯。 the harbour", clean="prefix")
    said(life, "Anna 嗯。 好的 rain")


def test_two_edits_behind_words_that_are_said_twice_are_edits() -> None:
    life = begun("嗯。 rain Anna 好的")
    life.inject(role="assistant", depth=5, text=LONG)
    life.inject(role="system", depth=0, text=LONG)
    said(life, "rain")
    life.edit(text="rain", back=4)
    life.edit(text="rain", back=5)
    life.swipe(told=False)


def test_what_is_left_of_a_message_is_not_looked_for_where_it_is_shown_whole() -> None:
    said_twice = "a lantern rain café a lantern"
    life = begun("café", said_twice, older=2)
    life.inject(role="system", depth=2, text=said_twice)
    life.delete_last(count=3)
    said(life, "rain", "a lantern rain")
    life.delete_middle(back=6)
    said(life, "rain café the harbour", "café", "the harbour café", "harbour 嗯。 Anna", "rain")


def test_what_left_the_window_unread_is_said_again_and_no_instruction() -> None:
    again = "the harbour a lantern gulls the harbour"
    life = begun("Anna a lantern rain", window=8)
    said(life, "嗯。 Anna a lantern", "the harbour café 嗯。 gulls gulls")
    life.tell()
    life.hide(back=3)
    life.send(text="the harbour café 嗯。 gulls gulls", clean="prefix")
    life.send(text=again, clean="prefix")
    said(life, "rain the harbour rain a lantern", "好的 café the harbour", "a lantern")
    life.inject(role="user", depth=0, text=again)


def test_a_question_beside_the_chat_does_not_make_a_server_forget_what_another_saw() -> None:
    life = begun("Anna café 嗯。 gulls café", older=4)
    life.ask_another_server()
    life.inject(role="assistant", depth=1, text="rain")
    life.ask_another_server()
    life.ask_aside(kind="raw", told=False, text="rain")
    life.delete_last(count=1)
    life.delete_last(count=6)
    said(life, "Anna café rain")


def test_what_was_said_last_is_said_again_where_much_is_taken_back() -> None:
    life = begun("rain rain", "gulls gulls rain 嗯。 café", older=4)
    said(life, "a lantern Anna")
    life.delete_last(count=5)
    life.delete_last(count=6)
    said(life, "a lantern Anna", "a lantern Anna", "a lantern Anna")


def test_what_stands_before_a_reply_of_ours_leaves_the_window_before_it() -> None:
    life = begun("rain", window=6)
    life.inject(role="user", depth=0, text="rain")
    life.ask_another_server()
    said(life, "café Anna 嗯。")
    life.ask_another_server()
    life.inject(role="user", depth=5, text="rain")
    narrated(life, 3)
    said(life, "rain the harbour", "gulls gulls", "好的 the harbour")


def test_an_instruction_does_not_stay_because_the_last_question_is_gone() -> None:
    life = begun("好的", "café 嗯。 Anna", "café Anna")
    life.inject(role="assistant", depth=2, text="rain")
    life.edit(text="rain", back=4)
    life.swipe(told=False)
    life.delete_middle(back=2)
    life.hide(back=2)
    said(life, "rain")


def test_a_word_that_is_said_again_does_not_unsay_the_first() -> None:
    life = begun("rain rain", "好的", "gulls rain the harbour a lantern 嗯。")
    life.edit(text="rain", back=3)
    life.swipe(told=False)
    said(life, "好的", "Anna", "嗯。 rain the harbour 好的 好的", "Anna café 好的 嗯。 the harbour")


def test_what_another_server_was_asked_with_is_no_question_when_it_stands_alone() -> None:
    life = begun("the harbour rain café", "rain 好的 a lantern", older=1)
    life.show_more_or_less(window=6)
    life.ask_another_server()
    life.inject(role="user", depth=0, text="café a lantern café Anna gulls")
    life.ask_another_server()
    life.delete_middle(back=2)
    life.swipe(told=False)


def test_a_question_before_one_that_was_taken_back_is_not_passed_over() -> None:
    """The same words stand further up as well."""
    life = begun("rain café a lantern 好的", "a lantern", "好的", "a lantern", window=8)
    life.edit(back=2, text="Anna Anna")
    life.delete_last(count=1)
    said(life, "a lantern café Anna", "rain", "gulls")


def test_old_questions_that_are_asked_again_while_nothing_is_shared_are_new() -> None:
    old = ["rain a lantern", "嗯。 嗯。 gulls", "the harbour 好的 the harbour", "gulls café"]
    life = begun(*old, older=3, window=5)
    life.swipe(told=True)
    life.swipe_back()
    narrated(life, 2)
    said(life, "Anna gulls the harbour Anna", "gulls the harbour")
    life.show_more_or_less(window=8)
    said(life, *old)


def test_a_question_is_not_what_is_left_of_one_that_was_taken_back() -> None:
    life = begun("嗯。 gulls", older=4)
    life.inject(role="user", depth=2, text="café Anna rain a lantern café")
    life.inject(role="user", depth=3, text="café gulls café")
    life.delete_last(count=4)
    life.delete_last(count=1)
    said(life, "café Anna a lantern café", "a lantern the harbour the harbour 嗯。 嗯。")


def test_what_comes_back_between_others_is_stored_however_much_was_taken_back_behind_it() -> None:
    life = begun("a lantern", "嗯。", "gulls a lantern rain Anna gulls", "café", older=3, window=7)
    life.show_more_or_less(window=None)
    life.hide(back=2)
    life.swipe(told=True)
    said(life, "嗯。 Anna", "the harbour Anna", "rain café 好的 gulls 嗯。")
    said(life, "café rain", "a lantern gulls")
    life.unhide()
    life.swipe(told=False)
    life.delete_last(count=2)
    life.delete_last(count=6)
    said(life, "rain", "gulls 好的 the harbour rain")
    life.delete_last(count=6)
    said(life, "café a lantern", "café the harbour a lantern café gulls", "gulls the harbour 好的")
    said(life, "the harbour 好的 the harbour the harbour", "the harbour the harbour rain café")


def test_replies_that_the_client_cleans_are_known_by_their_lines() -> None:
    """A narrator has filled the window, and old words are said again meanwhile."""
    life = begun("the harbour Anna a lantern 嗯。 Anna", "Anna 好的 gulls", older=5, window=6)
    narrated(life, 1)
    life.send(text="好的 café", clean="prefix")
    narrated(life, 2)
    life.inject(role="assistant", depth=5, text="嗯。 嗯。 gulls Anna rain")
    said(life, "the harbour the harbour Anna gulls Anna")
    life.ask_another_server()
    life.send(text="the harbour rain 好的", clean="prefix")
    said(life, "rain café the harbour")
    life.send(text="嗯。", clean="cut")
    life.send(text="好的 café", clean="prefix")
    life.ask_another_server()
    life.send(text="a lantern a lantern the harbour", clean="prefix")
    life.show_more_or_less(window=8)
    said(life, "好的")
    life.send(text="the harbour café a lantern", clean="cut")
